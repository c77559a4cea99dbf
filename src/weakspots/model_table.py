"""The model table: what a row of `models` in the configuration means, and how the paper names it.

A row states only what differs from the default compressed model, `W8/S8 · 1 KV`: learned scalar gates with a bias per
offset, separate key and value branches, query and key norm, RoPE on every channel, one joint attention over the
compressed entries and a sliding window of 16 exact tokens, seed 42. Its `compressor` names a file of `compressors/`,
whose class the row is an object of.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import SerializeAsAny, ValidatorFunctionWrapHandler, WrapValidator

from weakspots import compressors
from weakspots.compressors.base import ModelRow

__all__ = ["CLEAN", "DEFAULT", "WHOLE_LAYER", "ModelRow", "TableRow", "model_row"]

DEFAULT = "gated"
"""The compressor of a row that names none: the paper's."""

WHOLE_LAYER = -1
"""The "KV head" that stands for all heads of a layer, where one head can be chosen."""

CLEAN = -1
"""The "layer" that stands for the model as it is, where one layer can be knocked out."""


def model_row(**attributes: Any) -> ModelRow:
    """The row with these attributes, as they stand in the configuration.

    Raises pydantic's ValidationError, and ValueError for a compressor that does not exist or an attribute that only
    another one has.
    """
    kind = compressors.find(attributes.get("compressor", DEFAULT))
    _refuse_foreign(kind, attributes)
    return kind.model_validate(attributes)


def _refuse_foreign(kind: type[ModelRow], attributes: dict[str, Any]) -> None:
    """Say which compressor has an attribute that this one lacks: else it would be called a mistake of spelling."""
    for attribute in attributes:
        if attribute not in kind.model_fields:
            having = [name for name in compressors.names() if attribute in compressors.find(name).model_fields]
            if having:
                raise ValueError(
                    f"{kind.model_fields['compressor'].default} has no {attribute}: remove it, or set compressor to "
                    f"{' or '.join(having)}"
                )


def _of_its_compressor(value: Any, handler: ValidatorFunctionWrapHandler) -> ModelRow:
    if isinstance(value, dict) and isinstance(value.get("compressor", DEFAULT), str):
        return model_row(**{str(key): part for key, part in value.items()})
    return value if isinstance(value, ModelRow) else handler(value)


TableRow = Annotated[SerializeAsAny[ModelRow], WrapValidator(_of_its_compressor)]
"""A row in a field of the configuration: validated as its compressor's class."""
