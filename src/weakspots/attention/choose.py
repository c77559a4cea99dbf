"""The one place that decides which backend computes pooling and the joint attention of a whole text.

A process selects its backend once, from the configuration; without that, every call goes by the device it runs on.

| | CPU | GPU |
| --- | --- | --- |
| torch | `pooling`, `blocked` (the definition where that kernel does not fit) | `pooling`, `naive` |
| triton | `triton_pool`, `triton_attend` under Triton's interpreter, for tests | the same, compiled |
"""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec
from typing import Literal

import torch

from weakspots.attention import blocked, naive, pooling
from weakspots.attention.memory import Memory
from weakspots.errors import UserError

Backend = Literal["auto", "torch", "triton"]

_log = logging.getLogger(__name__)
_TYPES = (torch.float32, torch.bfloat16, torch.float16)  # what the kernels compute; float64 is torch's
_INSTALLED = find_spec("triton") is not None
selected: Backend = "auto"
logged: str | None = None


def select(backend: Backend, device: str) -> None:
    """Sets the backend of this process, which computes on `device`, and logs it once, with the reason.

    `auto` is triton on a GPU where it is installed, torch elsewhere. Raises UserError where `triton` cannot run.
    """
    global selected, logged
    on_gpu = torch.device(device).type == "cuda"
    if backend == "triton":
        if not _INSTALLED:
            raise UserError("backend is triton, and triton is not installed: install it, or set backend to auto")
        if not on_gpu and not _interpreted():
            raise UserError(
                f"backend is triton and device is {device}, where its kernels run in the interpreter only, for tests:\n"
                "set backend to auto, or TRITON_INTERPRET=1 in the environment"
            )
    selected = backend
    reason = "as configured" if backend != "auto" else f"auto, device is {device}"
    if on_triton(torch.device(device)):
        chosen = "triton, in its interpreter" if _interpreted() else "triton"
    elif on_gpu:
        chosen = "torch, by the definition with a T x T mask"
        reason += " and triton is not installed" if backend == "auto" else ""
    else:
        chosen = "torch, in blocks"
    line = f"attention backend: {chosen} ({reason})"
    if line != logged:
        _log.info(line)
        logged = line


def attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    entry_keys: torch.Tensor,
    entry_values: torch.Tensor,
    memory: Memory,
) -> torch.Tensor:
    """Attention outputs `[B, H, T, D]` at positions 0..T-1 of a whole text; shapes as in `blocked.attend`."""
    if queries.dtype in _TYPES and on_triton(queries.device):
        from weakspots.attention import triton_attend

        return triton_attend.attend(queries, keys, values, entry_keys, entry_values, memory)
    if queries.device.type == "cpu":
        return blocked.attend(queries, keys, values, entry_keys, entry_values, memory)
    positions = torch.arange(queries.shape[2], device=queries.device)
    return naive.attend(queries, positions, keys, values, positions, entry_keys, entry_values, memory)


def pool(product: torch.Tensor, bias: torch.Tensor | None, heads: int, width: int, lead: int) -> torch.Tensor:
    """Entries `[B, N, J, D]` of payloads and gate products `[W, B, N, J * (D + g)]`; as `pooling.pool`."""
    gated, some = product.shape[-1] > heads * width, product.numel() > 0
    if gated and some and product.dtype in _TYPES and on_triton(product.device):
        from weakspots.attention import triton_pool

        return triton_pool.pool(product, bias, heads, width, lead)
    return pooling.pool(product, bias, heads, width, lead)


def on_triton(device: torch.device) -> bool:
    """Whether what runs on `device` goes through Triton's kernels, as selected."""
    return selected == "triton" or (selected == "auto" and device.type == "cuda" and _INSTALLED)


def _interpreted() -> bool:
    """Whether Triton's kernels run in its interpreter: decided by the environment, when triton is first imported."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes", "y")
