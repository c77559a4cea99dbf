"""`validation.json`: how a trained model does on held-out text, and whether it has learnt anything at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weakspots.errors import UserError

NOT_LEARNT = "not learnt"
"""What is said of a model that is still on the plateau, and how a sentence about it begins."""


@dataclass(frozen=True)
class Validation:
    """`loss` in nats per token that counts; `learnt_below` is the loss of the plateau, None where none is judged."""

    loss: float
    learnt_below: float | None = None

    @property
    def learnt(self) -> bool | None:
        """Whether the model has left the plateau, on which it guesses; None where that is not judged."""
        return None if self.learnt_below is None else self.loss < self.learnt_below

    def __str__(self) -> str:
        """What a log and a claim say of the model; nothing where it is not judged."""
        if self.learnt_below is None:
            return ""
        if self.learnt:
            return f"learnt: below {self.learnt_below:g}"
        return (
            f"{NOT_LEARNT}: its loss is {self.loss:.2f}, and a model has left the plateau below {self.learnt_below:g}"
        )


def write(path: Path, row: Mapping[str, Any]) -> None:
    """`row` has the loss, the number of held-out tokens, `learnt_below` and `learnt` (null where it is not judged)."""
    path.write_text(json.dumps(dict(row)) + "\n")


def read(path: str | Path) -> Validation:
    """What the file says; one without `learnt_below` is not judged. Raises UserError where it holds no loss."""
    try:
        content = json.loads(Path(path).read_text())
        below = content.get("learnt_below")
        return Validation(float(content["loss"]), None if below is None else float(below))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{path}: holds no validation loss; delete its folder and train the model again") from None
