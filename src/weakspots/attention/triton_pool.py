"""The gated sum over every window as one pass over memory, forward and backward, for a GPU.

    alpha_i = softmax_i(s_i + b_i) in float32,   entry = sum_i alpha_i * p_i

The payloads p and the gate products s come from one batched matrix product and are read where it left them. A program
takes some entries of one head and walks over the window with a running softmax. Backward, with g the gradient of the
entry (sums over channels for a scalar gate):

    dp_i = alpha_i * g,   ds_i = alpha_i * (g * p_i - g * entry),   db_i = sum over entries of ds_i

alpha comes back from the saved normaliser, so nothing of size W x D is stored. Bias gradients are summed in float32,
per program and then over programs, always in the same order.

Shapes as in `pooling`: W window, B batch, N entries, J heads of all branches, D channels, g scores per head (1 or D).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

ENTRIES = 16
"""Entries of one program: some KiB in flight for each, and few enough to fill a GPU at short lengths."""
_HIDDEN = tl.constexpr(-1e30)  # finite, so that no difference of two of them is NaN


@triton.jit
def _logits(product, bias, offset, entry, head, inside, entries, lead, HEADS, WIDTH, GATES, BIASED):
    """Gate logits `[rows, g]` of one offset, hidden where its token is missing, and where that is."""
    score: tl.constexpr = GATES if GATES == 1 else WIDTH
    channel = tl.arange(0, GATES)
    column = HEADS * WIDTH + head * score + channel
    inside = inside[:, None] & (channel < score)[None, :]
    logits = tl.load(product + entry[:, None] * (HEADS * (WIDTH + score)) + column[None, :], inside, 0.0)
    logits = logits.to(tl.float32)
    if BIASED:
        at = offset * HEADS * score + head * score + channel
        logits += tl.load(bias + at, channel < score, 0.0).to(tl.float32)[None, :]
    missing = ((entry % entries == 0) & (offset < lead))[:, None]
    return tl.where(missing, _HIDDEN, logits), missing


@triton.jit
def _forward(
    product,
    bias,
    out,
    normaliser,
    rows,
    entries,
    lead,
    WINDOW: tl.constexpr,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    GATES: tl.constexpr,
    BIASED: tl.constexpr,
    ROWS: tl.constexpr,
):
    entry = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    head = tl.program_id(1)
    channel = tl.arange(0, COLUMNS)
    score: tl.constexpr = GATES if GATES == 1 else WIDTH
    inside = entry < rows
    cells = inside[:, None] & (channel < WIDTH)[None, :]
    payloads = entry[:, None] * (HEADS * (WIDTH + score)) + (head * WIDTH + channel)[None, :]
    peak = tl.full((ROWS, GATES), _HIDDEN, tl.float32)
    total = tl.zeros((ROWS, GATES), tl.float32)
    pooled = tl.zeros((ROWS, COLUMNS), tl.float32)
    step = tl.cast(rows, tl.int64) * (HEADS * (WIDTH + score))  # rows is a plain 1 where there is one
    for offset in range(WINDOW):
        logits, missing = _logits(
            product, bias, offset, entry, head, inside, entries, lead, HEADS, WIDTH, GATES, BIASED
        )
        higher = tl.maximum(peak, logits)
        weight = tl.where(missing, 0.0, tl.exp(logits - higher))
        shrink = tl.exp(peak - higher)
        payload = tl.load(product + payloads, cells, 0.0).to(tl.float32)
        pooled = pooled * shrink + weight * payload
        total = total * shrink + weight
        peak = higher
        product += step
    at = entry[:, None] * (HEADS * WIDTH) + (head * WIDTH + channel)[None, :]
    tl.store(out + at, (pooled / total).to(out.dtype.element_ty), cells)
    gate = tl.arange(0, GATES)
    at = entry[:, None] * (HEADS * score) + (head * score + gate)[None, :]
    tl.store(normaliser + at, peak + tl.log(total), inside[:, None] & (gate < score)[None, :])


@triton.jit
def _backward(
    product,
    bias,
    out,
    normaliser,
    gradient,
    for_product,
    for_bias,
    rows,
    entries,
    lead,
    WINDOW: tl.constexpr,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    GATES: tl.constexpr,
    BIASED: tl.constexpr,
    ROWS: tl.constexpr,
):
    block = tl.program_id(0)
    entry = block.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    head = tl.program_id(1)
    channel = tl.arange(0, COLUMNS)
    gate = tl.arange(0, GATES)
    score: tl.constexpr = GATES if GATES == 1 else WIDTH
    inside = entry < rows
    cells = inside[:, None] & (channel < WIDTH)[None, :]
    gates = inside[:, None] & (gate < score)[None, :]
    at = entry[:, None] * (HEADS * WIDTH) + (head * WIDTH + channel)[None, :]
    upstream = tl.load(gradient + at, cells, 0.0).to(tl.float32)
    mean = upstream * tl.load(out + at, cells, 0.0).to(tl.float32)
    at = entry[:, None] * (HEADS * score) + (head * score + gate)[None, :]
    log_total = tl.load(normaliser + at, gates, 0.0)
    if GATES == 1:
        mean = tl.sum(mean, axis=1, keep_dims=True)
    line = entry[:, None] * (HEADS * (WIDTH + score))
    payloads = line + (head * WIDTH + channel)[None, :]
    scores = line + (HEADS * WIDTH + head * score + gate)[None, :]
    step = tl.cast(rows, tl.int64) * (HEADS * (WIDTH + score))  # rows is a plain 1 where there is one
    for offset in range(WINDOW):
        logits, _ = _logits(product, bias, offset, entry, head, inside, entries, lead, HEADS, WIDTH, GATES, BIASED)
        alpha = tl.exp(logits - log_total)
        for_alpha = upstream * tl.load(product + payloads, cells, 0.0).to(tl.float32)
        if GATES == 1:
            for_alpha = tl.sum(for_alpha, axis=1, keep_dims=True)
        for_logits = tl.where(gates, alpha * (for_alpha - mean), 0.0)
        kind = for_product.dtype.element_ty
        tl.store(for_product + payloads, (alpha * upstream).to(kind), cells)
        tl.store(for_product + scores, for_logits.to(kind), gates)
        if BIASED:
            part = (block * WINDOW + offset) * HEADS * score + head * score + gate
            tl.store(for_bias + part, tl.sum(for_logits, axis=0), gate < score)
        product += step
        for_product += step


def _shape(product: torch.Tensor, bias: torch.Tensor | None, heads: int, width: int) -> tuple[tuple, dict]:
    """The grid, and what both kernels are compiled for."""
    rows = product.shape[1] * product.shape[2]
    columns = triton.next_power_of_2(width)
    sizes = {
        "WINDOW": product.shape[0],
        "HEADS": heads,
        "WIDTH": width,
        "COLUMNS": columns,
        "GATES": 1 if product.shape[3] == heads * (width + 1) and width > 1 else columns,
        "BIASED": bias is not None,
        "ROWS": ENTRIES,
    }
    return (triton.cdiv(rows, ENTRIES), heads), sizes


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx, product, bias, heads, width, lead):
        product = product.contiguous()
        _, batch, entries, columns = product.shape
        kind = product.dtype if bias is None else torch.promote_types(product.dtype, bias.dtype)
        out = torch.empty((batch, entries, heads, width), dtype=kind, device=product.device)
        scores = columns // heads - width
        normaliser = torch.empty((batch, entries, heads, scores), dtype=torch.float32, device=product.device)
        grid, sizes = _shape(product, bias, heads, width)
        _forward[grid](product, bias, out, normaliser, batch * entries, entries, lead, **sizes)
        ctx.save_for_backward(product, bias, out, normaliser)
        ctx.heads, ctx.width, ctx.lead = heads, width, lead
        return out

    @staticmethod
    def backward(ctx, gradient):
        product, bias, out, normaliser = ctx.saved_tensors
        _, batch, entries, _ = product.shape
        grid, sizes = _shape(product, bias, ctx.heads, ctx.width)
        for_product = torch.empty_like(product)
        parts = None
        if bias is not None:
            parts = torch.empty((grid[0], *bias.shape), dtype=torch.float32, device=bias.device)
        _backward[grid](
            product,
            bias,
            out,
            normaliser,
            gradient.contiguous(),
            for_product,
            parts,
            batch * entries,
            entries,
            ctx.lead,
            **sizes,
        )
        return for_product, None if bias is None else parts.sum(0).to(bias.dtype), None, None, None


@torch.compiler.disable  # torch.compile leaves the programs as they are, and goes on around them
def pool(product: torch.Tensor, bias: torch.Tensor | None, heads: int, width: int, lead: int) -> torch.Tensor:
    """Entries `[B, N, J, D]` of learnt gates; equals `pooling.pool` to rounding, with gradients for both tensors.

    `product` `[W, B, N, J * (D + g)]` holds all payloads, then all gate products; `bias` is `[W, J * g]` or None. In
    the first entry of every text the first `lead` tokens are missing. There must be an entry.
    """
    return _Pool.apply(product, bias, heads, width, lead)
