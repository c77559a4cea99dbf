"""The joint attention as one online softmax over entries and exact tokens, forward and backward, for a GPU.

    o_t = sum_j p_tj v_j,   p_tj = exp(q_t k_j / sqrt(D) - L_t)   over the entries and the exact tokens that t sees,

with L_t the logarithm of the normaliser. Backward, with g the gradient of o and delta_t = g_t o_t:

    dv_j = sum_t p_tj g_t,   ds_tj = p_tj (g_t v_j - delta_t),   dq_t = sum_j ds_tj k_j / sqrt(D),   dk_j alike

This module lays out memory and launches; the programs are in `triton_attend_kernels`. Nothing is added atomically, so
results repeat to the bit.

Shapes: B batch, H query heads, K KV heads, G = H / K, T tokens, N entries, D channels.
"""

from __future__ import annotations

import torch
import triton

from weakspots.attention import triton_attend_kernels as kernels
from weakspots.attention.memory import Memory

TILE = {2: 64, 4: 32}
"""Rows and keys of one block by bytes per number: what the shared memory of a GPU holds at 128 channels."""
PROGRAMS = 512
"""Programs of dk, dv wanted at least: a few for every multiprocessor of a large GPU."""


def _constants(queries: torch.Tensor, kv_heads: int, memory: Memory) -> dict:
    width, tile = queries.shape[-1], TILE[queries.element_size()]
    return {
        "KV_HEADS": kv_heads,
        "GROUP": queries.shape[1] // kv_heads,
        "FIRST": memory.first_query,
        "STRIDE": memory.stride,
        "SLIDING": memory.local_window if memory.local == "sliding" else 0,
        "WIDTH": width,
        "COLUMNS": max(16, triton.next_power_of_2(width)),  # a dot product takes at least 16
        "ROWS": tile,
        "KEYS": tile,
        "WIDEN": triton.knobs.runtime.interpret,
        "num_stages": 2,  # of loads in flight: three would need more shared memory than smaller cards have
    }


def _strides(*tensors: torch.Tensor) -> list[int]:
    return [step for tensor in tensors for step in tensor.stride()[:3]]


class _JointAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, queries, keys, values, entry_keys, entry_values, memory):
        inputs = [x if x.stride(-1) == 1 else x.contiguous() for x in (queries, keys, values, entry_keys, entry_values)]
        batch, heads, length, width = queries.shape
        constants = _constants(queries, keys.shape[1], memory)
        # laid out by token, as the projection after it reads them
        out = torch.empty((batch, length, heads, width), dtype=queries.dtype, device=queries.device).transpose(1, 2)
        normaliser = torch.empty((batch, heads * length), dtype=torch.float32, device=queries.device)
        grid = (triton.cdiv(length * constants["GROUP"], constants["ROWS"]), batch * constants["KV_HEADS"])
        kernels.forward[grid](*inputs, out, normaliser, *_strides(*inputs, out), length, width**-0.5, **constants)
        ctx.save_for_backward(*inputs, out, normaliser)
        ctx.memory = memory
        return out

    @staticmethod
    def backward(ctx, gradient):
        *inputs, out, normaliser = ctx.saved_tensors
        queries, keys, values, *entries = inputs
        gradient = gradient if gradient.stride(-1) == 1 else gradient.contiguous()
        batch, _, length, width = queries.shape
        scale, constants = width**-0.5, _constants(queries, keys.shape[1], ctx.memory)
        for_queries, deltas = torch.empty_like(queries), torch.empty_like(normaliser)
        grid = (triton.cdiv(length * constants["GROUP"], constants["ROWS"]), batch * constants["KV_HEADS"])
        strides = _strides(*inputs, out, gradient, for_queries)
        kernels.backward_queries[grid](
            *inputs, out, normaliser, gradient, deltas, for_queries, *strides, length, scale, **constants
        )
        rows = (queries, normaliser, gradient, deltas)
        for_tokens = _for_keys(rows, keys, values, scale, False, ctx.memory, constants)
        return for_queries, *for_tokens, *_for_keys(rows, *entries, scale, True, ctx.memory, constants), None


def _for_keys(rows, keys, values, scale, entries, memory, constants) -> tuple[torch.Tensor, torch.Tensor]:
    """dk and dv of one key set."""
    queries, normaliser, gradient, deltas = rows
    batch, kv_heads, count, width = keys.shape
    if not count:
        return torch.zeros_like(keys), torch.zeros_like(values)
    grid = (triton.cdiv(count, constants["KEYS"]), batch * kv_heads)
    # an exact token has few rows: no use in splitting them
    blocks = triton.cdiv(queries.shape[2] * constants["GROUP"], constants["ROWS"])
    parts = min(triton.cdiv(PROGRAMS, grid[0] * grid[1]), triton.cdiv(blocks, 4)) if entries else 1
    kind = keys.dtype if parts == 1 else torch.float32
    for_keys, for_values = (torch.empty((parts, *keys.shape), dtype=kind, device=keys.device) for _ in range(2))
    strides = _strides(queries, keys, values, gradient)
    kernels.backward_keys[(*grid, parts)](
        queries, keys, values, normaliser, gradient, deltas, for_keys, for_values, *strides,
        queries.shape[2], count, scale, ENTRIES=entries, REACH=memory.block - 1, **constants,
    )  # fmt: skip
    if parts == 1:
        return for_keys[0], for_values[0]
    return for_keys.sum(0).to(keys.dtype), for_values.sum(0).to(values.dtype)


@torch.compiler.disable  # torch.compile leaves the programs as they are, and goes on around them
def attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    entry_keys: torch.Tensor,
    entry_values: torch.Tensor,
    memory: Memory,
) -> torch.Tensor:
    """Attention outputs `[B, H, T, D]` of a whole text, for queries at positions 0..T-1.

    `queries` is `[B, H, T, D]`, local `keys` and `values` `[B, K, T, D]`, entries `[B, K, N, D]` with
    N = `memory.entry_count(T)`; all of one type of two or four bytes. Equals `naive.attend` to rounding, with
    gradients for all five tensors.
    """
    return _JointAttention.apply(queries, keys, values, entry_keys, entry_values, memory)
