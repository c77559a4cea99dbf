"""Values as a YAML file writes them: numbers, words and truth are apart, and none is taken for another."""

from __future__ import annotations

import math
from typing import Any, get_args

from pydantic import BaseModel

LARGEST = {int: 10**15, float: 1e30}
"""No number of a run is larger; one that is, is a slip of the keyboard, and some would be computed with for ever."""

_MAY_REPEAT = {"record", "layers", "betas"}


class NotAsWritten(ValueError):
    """A value under `key` that would have to be taken for another; `reason` says why, and what to do."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key, self.reason = key, reason


def as_written(section: type[BaseModel], data: Any) -> Any:
    """`data`, once it is sure that no value of it must be converted to fit into `section`.

    Raises NotAsWritten, which names the key.
    """
    if not isinstance(data, dict):
        return data
    for key, value in data.items():
        field = section.model_fields.get(key) if isinstance(key, str) else None
        if field is None:
            continue
        kinds = _kinds(field.annotation)
        items = value if isinstance(value, list | tuple) else [value]
        for item in items:
            if isinstance(item, bool | str) and type(item) not in kinds and kinds & {int, float}:
                raise NotAsWritten(key, f"{item!r} is no number; correct the value")
            if isinstance(item, int | float) and not isinstance(item, bool):
                if bool in kinds and not kinds & {int, float}:
                    raise NotAsWritten(key, f"{item!r} is neither true nor false; correct the value")
                if not math.isfinite(item) or abs(item) > LARGEST[type(item)]:
                    raise NotAsWritten(key, f"{item!r} is no number that a run could have; correct the value")
        scalars = [item for item in items if isinstance(item, int | float | str)]
        if isinstance(value, list) and key not in _MAY_REPEAT and len(set(scalars)) < len(scalars):
            twice = next(item for item in scalars if scalars.count(item) > 1)
            raise NotAsWritten(key, f"names {twice} twice; remove one")
    return data


def _kinds(annotation: Any) -> set[Any]:
    """The plain types that an annotation is made of."""
    parts = get_args(annotation)
    return {annotation} if not parts else set().union(*map(_kinds, parts))
