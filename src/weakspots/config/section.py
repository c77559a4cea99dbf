"""What all parts of the configuration have in common."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from weakspots.files.written_values import as_written

Seed = Annotated[int, Field(ge=0, description="of everything that is drawn")]
"""A seed: numpy takes no negative one."""


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, values do not change, and no value is taken for another.

    YAML writes numbers, words and truth apart, so `stride: true` and `steps: "many"` are slips.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, data: Any) -> Any:
        return as_written(cls, data)


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
