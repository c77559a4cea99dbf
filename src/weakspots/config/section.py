"""What all parts of the configuration have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def without_nulls(data: Any, *keys: str) -> Any:
    """`data` without what is null in the mappings under `keys`: so an overlay removes what the file below it has."""
    if not isinstance(data, dict):
        return data
    kept = {
        key: {name: value for name, value in data[key].items() if value is not None}
        for key in keys
        if isinstance(data.get(key), dict)
    }
    return data | kept
