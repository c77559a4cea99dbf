"""What the tests of the kernels share: where they run, poisoned buffers, and how far two results are apart.

Under `make test` the kernels run in Triton's interpreter on the CPU, and bfloat16 is left out; `make gpu-check` runs
the same tests on a GPU, compiled, in bfloat16 too.
"""

from __future__ import annotations

import os

import pytest
import torch

COMPILED = os.environ["TRITON_INTERPRET"] == "0"
DEVICE = "cuda" if COMPILED else "cpu"
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 0.005}
"""Largest relative error. A bfloat16 number is itself wrong by up to 0.004."""
TYPES = [
    torch.float32,
    pytest.param(
        torch.bfloat16, marks=pytest.mark.skipif(not COMPILED, reason="Triton's interpreter computes bfloat16 wrongly")
    ),
]


def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every new buffer NaN, so that a number that a kernel forgets to write is seen."""

    def filled(make):
        def poisoned(*arguments, **options):
            buffer = make(*arguments, **options)
            return buffer.fill_(float("nan")) if buffer.is_floating_point() else buffer

        return poisoned

    for name in ("empty", "empty_like"):
        monkeypatch.setattr(torch, name, filled(getattr(torch, name)))


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Norm of the difference, relative to the norm of what was expected; NaN and infinity are infinitely wrong."""
    difference = (found.double() - expected.double()).norm() / expected.double().norm().clamp(min=1e-30)
    return difference.item() if torch.isfinite(difference) else float("inf")


def agree(ours, theirs, kind: torch.dtype) -> None:
    """Asserts that two lists of tensors are alike to the rounding of `kind`."""
    for number, (found, expected) in enumerate(zip(ours, theirs, strict=True)):
        assert found.shape == expected.shape
        if expected.numel() and not expected.any():
            assert found.abs().max() < TOLERANCE[kind], f"tensor {number} should be zero"
        else:
            assert error(found, expected) <= TOLERANCE[kind], f"tensor {number}"
