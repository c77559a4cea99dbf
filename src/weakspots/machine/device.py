"""Where models are trained and asked."""

from __future__ import annotations

import re

import torch

from weakspots.errors import UserError


def check(device: str) -> None:
    """Raises UserError where this machine has no such device."""
    named = re.fullmatch(r"cpu|cuda(?::(\d+))?", device)
    if not named:
        raise UserError(f"device {device!r} is neither cpu nor cuda (or one GPU of several, such as cuda:1)")
    if device == "cpu":
        return
    if not torch.cuda.is_available():
        raise UserError(f"device is {device}, and this machine has no GPU that torch can use: set device to cpu")
    if int(named[1] or 0) >= torch.cuda.device_count():
        raise UserError(f"device is {device}, and the last GPU of this machine is cuda:{torch.cuda.device_count() - 1}")
