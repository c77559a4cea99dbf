"""Where models are trained and asked."""

from __future__ import annotations

import torch

from weakspots.errors import UserError


def check(device: str) -> None:
    """Raises UserError where this machine has no such device."""
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("device is cuda, and this machine has no GPU that torch can use: set device to cpu")
