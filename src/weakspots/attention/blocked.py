"""The joint attention on a CPU, from torch's own flash kernel, without a T x T mask.

Two passes, each dense where it works (a text with few entries takes one, see `_short`):

- entries: the S queries that see the same entries differ in nothing but their query vector. Laid out as S more heads,
  they turn "entry j is visible from token j * S + W - 1 on" into an ordinary causal mask over T / S rows and T / S
  columns, of which the kernel computes the lower half only;
- local tokens: queries in blocks, each against its own block of keys and the one before.

One softmax over both is the average of the two outputs weighted by their normalisers. The gradient needs no extra
formula: the flash backward pass of each part is exact when it is given the joint output and the joint normaliser.

Shapes: B batch, H query heads, K KV heads, G = H / K, T tokens, N entries, D channels, b block length, n = T / b.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F

from weakspots.attention.memory import Memory

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
_FEW = 64  # entries up to which one dense pass is quicker than two of the kernel
_HIDDEN = -1e30  # finite, so that a row that sees no local token gets weight 0 in the average instead of NaN


@lru_cache(maxsize=64)
def _mask(memory: Memory, length: int, dtype: torch.dtype, entries: int) -> torch.Tensor:
    """Additive mask `[n, b, 2b + entries]` of every block of queries.

    Against its own keys and those of the block before, then against the first `entries` entries. The same for every
    layer and step.
    """
    block = memory.block
    queries = torch.arange(length).view(-1, block, 1)
    keys = queries[:, :1] - block + torch.arange(2 * block)
    visible = torch.cat(
        [memory.local_visible(queries, keys), torch.arange(entries) < memory.entries_seen(queries)], dim=2
    )
    return torch.zeros(visible.shape, dtype=dtype).masked_fill_(~visible, _HIDDEN)


class _Layout:
    """Moves tensors between token order and the two layouts of the kernel."""

    def __init__(self, memory: Memory, batch: int, heads: int, kv_heads: int, length: int, entries: int):
        self.memory, self.batch, self.heads, self.kv_heads = memory, batch, heads, kv_heads
        self.length, self.entries = length, entries
        self.group = heads // kv_heads
        self.start = memory.first_query
        self.blocks = -(-length // memory.block)

    def groups(self, x: torch.Tensor) -> torch.Tensor:
        """`[B, H, T, ...]` to `[B, H * S, N, ...]`: row j of a pseudo-head sees the entries 0..j."""
        stride, rest = self.memory.stride, x.shape[3:]
        x = x[:, :, self.start :]
        missing = self.entries * stride - x.shape[2]
        if missing:
            x = F.pad(x, (0,) * (2 * len(rest)) + (0, missing))
        x = x.unflatten(2, (self.entries, stride)).transpose(2, 3)
        return x.reshape(self.batch, self.heads * stride, self.entries, *rest)

    def ungroup(self, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """The inverse of `groups`: writes into `out` `[B, H, T, ...]` from the first query that sees an entry on."""
        x = x.unflatten(1, (self.heads, self.memory.stride)).transpose(2, 3).flatten(2, 3)
        out[:, :, self.start :] = x[:, :, : self.length - self.start]
        return out

    def spread(self, entries: torch.Tensor) -> torch.Tensor:
        """`[B, K, N, D]` to `[B, H * S, N, D]`: every pseudo-head reads its KV head's entries."""
        copies = self.group * self.memory.stride
        return (
            entries[:, :, None].expand(-1, -1, copies, -1, -1).reshape(self.batch, -1, self.entries, entries.shape[-1])
        )

    def gather(self, gradient: torch.Tensor) -> torch.Tensor:
        """The adjoint of `spread`."""
        return gradient.unflatten(1, (self.kv_heads, -1)).sum(2)

    def query_blocks(self, x: torch.Tensor) -> torch.Tensor:
        """`[B, H, T, D]` to `[B * n, K, G * b, D]`."""
        x = self._whole_blocks(x).view(self.batch, self.kv_heads, self.group, self.blocks, self.memory.block, -1)
        return x.permute(0, 3, 1, 2, 4, 5).reshape(self.batch * self.blocks, self.kv_heads, -1, x.shape[-1])

    def unblock(self, x: torch.Tensor) -> torch.Tensor:
        """The inverse of `query_blocks`, also for `[B * n, K, G * b]`."""
        rest = x.shape[3:]
        x = x.reshape(self.batch, self.blocks, self.kv_heads, self.group, self.memory.block, *rest)
        x = x.movedim(1, 3).reshape(self.batch, self.heads, self.blocks * self.memory.block, *rest)
        return x[:, :, : self.length]

    def key_blocks(self, x: torch.Tensor) -> torch.Tensor:
        """`[B, K, T, D]` to `[B * n, K, 2b, D]`: the keys of a block and of the one before."""
        block = self.memory.block
        x = F.pad(self._whole_blocks(x), (0, 0, block, 0)).unfold(2, 2 * block, block)
        return x.permute(0, 2, 1, 4, 3).reshape(self.batch * self.blocks, self.kv_heads, 2 * block, -1)

    def add_key_blocks(self, gradient: torch.Tensor) -> torch.Tensor:
        """The adjoint of `key_blocks`."""
        block = self.memory.block
        gradient = gradient.view(self.batch, self.blocks, self.kv_heads, 2, block, -1).movedim(1, 2)
        own, before = gradient[:, :, :, 1], gradient[:, :, :, 0]
        total = own.contiguous()
        total[:, :, :-1] += before[:, :, 1:]
        return total.flatten(2, 3)[:, :, : self.length]

    def _whole_blocks(self, x: torch.Tensor) -> torch.Tensor:
        missing = self.blocks * self.memory.block - self.length
        return F.pad(x, (0, 0, 0, missing)) if missing else x.contiguous()

    def mask(self, dtype: torch.dtype) -> torch.Tensor:
        """Additive mask `[B * n, 1, G * b, 2b]` of the local keys."""
        mask = _mask(self.memory, self.blocks * self.memory.block, dtype, 0)
        mask = mask[None, :, None].expand(self.batch, -1, self.group, -1, -1)
        return mask.reshape(self.batch * self.blocks, 1, -1, mask.shape[-1])


class _JointAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        entry_keys: torch.Tensor,
        entry_values: torch.Tensor,
        memory: Memory,
    ) -> torch.Tensor:
        batch, heads, length, _ = queries.shape
        layout = _Layout(memory, batch, heads, keys.shape[1], length, entry_keys.shape[2])
        blocks = (layout.query_blocks(queries), layout.key_blocks(keys), layout.key_blocks(values))
        out, normaliser = _flash(*blocks, 0.0, False, attn_mask=layout.mask(queries.dtype))
        out, normaliser = layout.unblock(out), layout.unblock(normaliser)
        parts = None
        if layout.entries:
            parts = (layout.groups(queries), layout.spread(entry_keys), layout.spread(entry_values))
            entry_out, entry_normaliser = _flash(*parts, 0.0, True)
            entry_out = layout.ungroup(entry_out, torch.zeros_like(queries))
            entry_normaliser = layout.ungroup(entry_normaliser, torch.full_like(normaliser, _HIDDEN))
            joint = torch.logaddexp(normaliser, entry_normaliser)
            out = torch.lerp(out, entry_out, (entry_normaliser - joint).exp().to(out.dtype)[..., None])
            normaliser = joint
        ctx.layout, ctx.has_entries = layout, parts is not None
        ctx.save_for_backward(*blocks, *(parts or ()), out, normaliser)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        layout = ctx.layout
        *saved, out, normaliser = ctx.saved_tensors
        dq, dk, dv = _flash_backward(
            layout.query_blocks(gradient),
            *saved[:3],
            layout.query_blocks(out),
            layout.query_blocks(normaliser[..., None])[..., 0],
            0.0,
            False,
            attn_mask=layout.mask(out.dtype),
        )
        dq, dk, dv = layout.unblock(dq), layout.add_key_blocks(dk), layout.add_key_blocks(dv)
        if not ctx.has_entries:
            return dq, dk, dv, None, None, None
        dq_entries, dk_entries, dv_entries = _flash_backward(
            layout.groups(gradient), *saved[3:], layout.groups(out), layout.groups(normaliser), 0.0, True
        )
        dq = dq.contiguous()
        dq[:, :, layout.start :] += layout.ungroup(dq_entries, torch.empty_like(dq))[:, :, layout.start :]
        return dq, dk, dv, layout.gather(dk_entries), layout.gather(dv_entries), None


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
    N = `memory.entry_count(T)`. Equals `naive.attend` to rounding, with gradients for all five tensors.
    """
    if entry_keys.shape[2] <= _FEW:
        return _short(queries, keys, values, entry_keys, entry_values, memory)
    return _JointAttention.apply(queries, keys, values, entry_keys, entry_values, memory)


def _short(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    entry_keys: torch.Tensor,
    entry_values: torch.Tensor,
    memory: Memory,
) -> torch.Tensor:
    """Every block of queries against its local keys and all entries at once.

    The kernel's cost per call outweighs its saving where there are few entries.
    """
    batch, heads, length, width = queries.shape
    layout = _Layout(memory, batch, heads, keys.shape[1], length, entry_keys.shape[2])

    def with_entries(tokens: torch.Tensor, entries: torch.Tensor) -> torch.Tensor:
        entries = entries[:, None].expand(-1, layout.blocks, -1, -1, -1).flatten(0, 1)
        return torch.cat([layout.key_blocks(tokens), entries], dim=2).flatten(0, 1)

    visible_keys = with_entries(keys, entry_keys)
    blocks = layout.query_blocks(queries).flatten(0, 1)
    nothing = queries.new_zeros(())  # beta = 0: only the product and its scale, in one pass
    scores = torch.baddbmm(nothing, blocks, visible_keys.transpose(1, 2), beta=0, alpha=width**-0.5)
    mask = _mask(memory, layout.blocks * memory.block, queries.dtype, layout.entries)[:, None, None]
    scores.view(batch, *mask.shape[:1], layout.kv_heads, layout.group, *mask.shape[3:]).add_(mask)
    out = torch.bmm(scores.softmax(dim=-1), with_entries(values, entry_values))
    return layout.unblock(out.unflatten(0, (-1, layout.kv_heads)))
