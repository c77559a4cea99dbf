"""The programs of the joint attention: what one block of rows, or one block of keys, computes on a GPU.

Which keys a query sees is arithmetic on positions (`memory` has the same in torch), so no mask exists, and loops run
over the visible range only: T * (T / S + w) scores are computed, up to the edges of blocks.

A program of the forward pass, and of dq, takes a block of rows: the G query heads of one KV head at some positions, so
that they share what is loaded (row r is head r % G at position r // G). A program of dk, dv takes a block of keys of
one set and loops over the rows that see it. Entries far back are seen by nearly all rows; where such programs are too
few for a GPU, the rows of each are split into parts that are added afterwards, in a fixed order.

Sums are float32. Products take the inputs' type, and float32 ones are exact float32 ("ieee") and not TF32. Powers are
of 2, so scores carry a factor log2(e), and so do the saved normalisers.
"""

from __future__ import annotations

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(1.4426950408889634)
_LOWEST = tl.constexpr(-1e30)  # finite, so that no difference of two of them is NaN


@triton.jit
def _entries_seen(position, FIRST: tl.constexpr, STRIDE: tl.constexpr):
    """`Memory.entries_seen`."""
    return tl.where(position >= FIRST, (position - FIRST) // STRIDE + 1, 0)


@triton.jit
def _local_start(position, FIRST: tl.constexpr, STRIDE: tl.constexpr, SLIDING: tl.constexpr):
    """`Memory.local_start`; SLIDING is the length of the sliding window, 0 for a tail."""
    if SLIDING > 0:
        start = tl.maximum(position - SLIDING + 1, 0)
    else:
        seen = _entries_seen(position, FIRST, STRIDE)
        start = tl.where(seen > 0, seen * STRIDE + FIRST + 1 - STRIDE, 0)
    return start


@triton.jit
def _visible(position, key, ENTRIES: tl.constexpr, FIRST: tl.constexpr, STRIDE: tl.constexpr, SLIDING: tl.constexpr):
    """Whether the query at `position` sees entry, or exact token, `key`."""
    if ENTRIES:
        visible = key < _entries_seen(position, FIRST, STRIDE)
    else:
        visible = (key >= _local_start(position, FIRST, STRIDE, SLIDING)) & (key <= position)
    return visible


@triton.jit
def _load(base, offsets, inside, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, WIDEN: tl.constexpr):
    """Vectors `[len(offsets), COLUMNS]`, 0 outside; as float32 under the interpreter, whose bfloat16 is wrong."""
    channel = tl.arange(0, COLUMNS)
    vectors = tl.load(base + offsets[:, None] + channel[None, :], inside[:, None] & (channel < WIDTH)[None, :], 0.0)
    if WIDEN:
        vectors = vectors.to(tl.float32)
    return vectors


@triton.jit
def _store(base, offsets, inside, vectors, WIDTH: tl.constexpr, COLUMNS: tl.constexpr):
    channel = tl.arange(0, COLUMNS)
    at = base + offsets[:, None] + channel[None, :]
    tl.store(at, vectors.to(base.dtype.element_ty), inside[:, None] & (channel < WIDTH)[None, :])


@triton.jit
def _weigh(
    query, position, pooled, total, peak, keys, values, key_step, value_step, begin, end, scale,
    ENTRIES: tl.constexpr, FIRST: tl.constexpr, STRIDE: tl.constexpr, SLIDING: tl.constexpr,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, KEYS: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """Adds the keys `begin` to `end` of one set to the running softmax of a block of queries."""
    for start in range(begin, end, KEYS):
        key = start + tl.arange(0, KEYS)
        k = _load(keys, key * key_step, key < end, WIDTH, COLUMNS, WIDEN)
        v = _load(values, key * value_step, key < end, WIDTH, COLUMNS, WIDEN)
        scores = tl.dot(query, tl.trans(k), input_precision="ieee") * scale
        visible = _visible(position[:, None], key[None, :], ENTRIES, FIRST, STRIDE, SLIDING)
        scores = tl.where(visible, scores, -float("inf"))
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(peak - higher)
        pooled = pooled * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        total = total * shrink + tl.sum(weights, axis=1)
        peak = higher
    return pooled, total, peak


@triton.jit
def forward(
    queries, keys, values, entry_keys, entry_values, out, normaliser,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token,
    ek_batch, ek_head, ek_token, ev_batch, ev_head, ev_token, o_batch, o_head, o_token,
    length, scale,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, FIRST: tl.constexpr, STRIDE: tl.constexpr, SLIDING: tl.constexpr,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    block = tl.num_programs(0) - 1 - tl.program_id(0)  # the rows that see most begin first
    batch, head = (tl.program_id(1) // KV_HEADS).to(tl.int64), (tl.program_id(1) % KV_HEADS).to(tl.int64)
    row = block * ROWS + tl.arange(0, ROWS)
    position, inside = row // GROUP, row < length * GROUP
    first, last = block * ROWS // GROUP, tl.minimum((block * ROWS + ROWS - 1) // GROUP, length - 1)
    queries += batch * q_batch + head * GROUP * q_head
    query = _load(queries, row % GROUP * q_head + position * q_token, inside, WIDTH, COLUMNS, WIDEN)
    pooled = tl.zeros((ROWS, COLUMNS), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    peak = tl.full((ROWS,), _LOWEST, tl.float32)
    pooled, total, peak = _weigh(
        query, position, pooled, total, peak,
        entry_keys + batch * ek_batch + head * ek_head, entry_values + batch * ev_batch + head * ev_head,
        ek_token, ev_token, 0, _entries_seen(last, FIRST, STRIDE), scale * _LOG2_E,
        True, FIRST, STRIDE, SLIDING, WIDTH, COLUMNS, KEYS, WIDEN,
    )  # fmt: skip
    pooled, total, peak = _weigh(
        query, position, pooled, total, peak,
        keys + batch * k_batch + head * k_head, values + batch * v_batch + head * v_head,
        k_token, v_token, _local_start(first, FIRST, STRIDE, SLIDING), last + 1, scale * _LOG2_E,
        False, FIRST, STRIDE, SLIDING, WIDTH, COLUMNS, KEYS, WIDEN,
    )  # fmt: skip
    seeing = total > 0  # a row that sees nothing gets 0, and no gradient
    pooled = pooled / tl.where(seeing, total, 1.0)[:, None]
    out += batch * o_batch + head * GROUP * o_head
    _store(out, row % GROUP * o_head + position * o_token, inside, pooled, WIDTH, COLUMNS)
    log_total = tl.where(seeing, peak + tl.log2(tl.where(seeing, total, 1.0)), float("inf"))
    tl.store(normaliser + tl.program_id(1).to(tl.int64) * length * GROUP + row, log_total, inside)


@triton.jit
def _pull(
    query, upstream, log_total, delta, position, for_query, keys, values, key_step, value_step, begin, end, scale,
    ENTRIES: tl.constexpr, FIRST: tl.constexpr, STRIDE: tl.constexpr, SLIDING: tl.constexpr,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, KEYS: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """Adds what the keys `begin` to `end` of one set contribute to dq, without its factor 1 / sqrt(D)."""
    for start in range(begin, end, KEYS):
        key = start + tl.arange(0, KEYS)
        k = _load(keys, key * key_step, key < end, WIDTH, COLUMNS, WIDEN)
        v = _load(values, key * value_step, key < end, WIDTH, COLUMNS, WIDEN)
        scores = tl.dot(query, tl.trans(k), input_precision="ieee") * scale
        visible = _visible(position[:, None], key[None, :], ENTRIES, FIRST, STRIDE, SLIDING)
        weights = tl.exp2(tl.where(visible, scores, -float("inf")) - log_total[:, None])
        for_weights = tl.dot(upstream, tl.trans(v), input_precision="ieee")
        for_scores = weights * (for_weights - delta[:, None])
        for_query += tl.dot(for_scores.to(k.dtype), k, input_precision="ieee")
    return for_query


@triton.jit
def backward_queries(
    queries, keys, values, entry_keys, entry_values, out, normaliser, gradient, deltas, for_queries,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token,
    ek_batch, ek_head, ek_token, ev_batch, ev_head, ev_token, o_batch, o_head, o_token,
    g_batch, g_head, g_token, dq_batch, dq_head, dq_token,
    length, scale,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, FIRST: tl.constexpr, STRIDE: tl.constexpr, SLIDING: tl.constexpr,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """dq of a block of rows; and their delta, which the kernel of dk, dv reads."""
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    batch, head = (tl.program_id(1) // KV_HEADS).to(tl.int64), (tl.program_id(1) % KV_HEADS).to(tl.int64)
    row = block * ROWS + tl.arange(0, ROWS)
    position, within, inside = row // GROUP, row % GROUP, row < length * GROUP
    first, last = block * ROWS // GROUP, tl.minimum((block * ROWS + ROWS - 1) // GROUP, length - 1)
    queries += batch * q_batch + head * GROUP * q_head
    out += batch * o_batch + head * GROUP * o_head
    gradient += batch * g_batch + head * GROUP * g_head
    query = _load(queries, within * q_head + position * q_token, inside, WIDTH, COLUMNS, WIDEN)
    output = _load(out, within * o_head + position * o_token, inside, WIDTH, COLUMNS, WIDEN)
    upstream = _load(gradient, within * g_head + position * g_token, inside, WIDTH, COLUMNS, WIDEN)
    delta = tl.sum(output.to(tl.float32) * upstream.to(tl.float32), axis=1)
    at = tl.program_id(1).to(tl.int64) * length * GROUP + row
    tl.store(deltas + at, delta, inside)
    log_total = tl.load(normaliser + at, inside, float("inf"))
    for_query = tl.zeros((ROWS, COLUMNS), tl.float32)
    for_query = _pull(
        query, upstream, log_total, delta, position, for_query,
        entry_keys + batch * ek_batch + head * ek_head, entry_values + batch * ev_batch + head * ev_head,
        ek_token, ev_token, 0, _entries_seen(last, FIRST, STRIDE), scale * _LOG2_E,
        True, FIRST, STRIDE, SLIDING, WIDTH, COLUMNS, KEYS, WIDEN,
    )  # fmt: skip
    for_query = _pull(
        query, upstream, log_total, delta, position, for_query,
        keys + batch * k_batch + head * k_head, values + batch * v_batch + head * v_head,
        k_token, v_token, _local_start(first, FIRST, STRIDE, SLIDING), last + 1, scale * _LOG2_E,
        False, FIRST, STRIDE, SLIDING, WIDTH, COLUMNS, KEYS, WIDEN,
    )  # fmt: skip
    for_queries += batch * dq_batch + head * GROUP * dq_head
    _store(for_queries, within * dq_head + position * dq_token, inside, for_query * scale, WIDTH, COLUMNS)


@triton.jit
def backward_keys(
    queries, keys, values, normaliser, gradient, deltas, for_keys, for_values,
    q_batch, q_head, q_token, k_batch, k_head, k_token, v_batch, v_head, v_token, g_batch, g_head, g_token,
    length, count, scale,
    ENTRIES: tl.constexpr, REACH: tl.constexpr,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, FIRST: tl.constexpr, STRIDE: tl.constexpr, SLIDING: tl.constexpr,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """dk and dv of a block of `count` keys of one set, from one part of the rows that see them.

    Results are `[parts, B, K, count, D]`. REACH is how far behind an exact token its last query may lie.
    """
    start = tl.program_id(0) * KEYS
    batch, head = (tl.program_id(1) // KV_HEADS).to(tl.int64), (tl.program_id(1) % KV_HEADS).to(tl.int64)
    key = start + tl.arange(0, KEYS)
    keys += batch * k_batch + head * k_head
    values += batch * v_batch + head * v_head
    queries += batch * q_batch + head * GROUP * q_head
    gradient += batch * g_batch + head * GROUP * g_head
    normaliser += tl.program_id(1).to(tl.int64) * length * GROUP
    deltas += tl.program_id(1).to(tl.int64) * length * GROUP
    k = _load(keys, key * k_token, key < count, WIDTH, COLUMNS, WIDEN)
    v = _load(values, key * v_token, key < count, WIDTH, COLUMNS, WIDEN)
    if ENTRIES:
        first = (FIRST + start * STRIDE) * GROUP
        last = length * GROUP
    else:
        first = start * GROUP
        last = tl.minimum(start + KEYS + REACH, length) * GROUP
    share = tl.cdiv(tl.cdiv(last - first, ROWS), tl.num_programs(2)) * ROWS
    begin = first + tl.program_id(2) * share
    end = tl.minimum(begin + share, last)
    for_k = tl.zeros((KEYS, COLUMNS), tl.float32)
    for_v = tl.zeros((KEYS, COLUMNS), tl.float32)
    for block in range(begin, end, ROWS):
        row = block + tl.arange(0, ROWS)
        position, within, inside = row // GROUP, row % GROUP, row < end
        query = _load(queries, within * q_head + position * q_token, inside, WIDTH, COLUMNS, WIDEN)
        upstream = _load(gradient, within * g_head + position * g_token, inside, WIDTH, COLUMNS, WIDEN)
        log_total = tl.load(normaliser + row, inside, float("inf"))
        delta = tl.load(deltas + row, inside, 0.0)
        scores = tl.dot(k, tl.trans(query), input_precision="ieee") * (scale * _LOG2_E)
        visible = _visible(position[None, :], key[:, None], ENTRIES, FIRST, STRIDE, SLIDING) & inside[None, :]
        weights = tl.exp2(tl.where(visible, scores, -float("inf")) - log_total[None, :])
        for_v += tl.dot(weights.to(upstream.dtype), upstream, input_precision="ieee")
        for_weights = tl.dot(v, tl.trans(upstream), input_precision="ieee")
        for_scores = weights * (for_weights - delta[None, :])
        for_k += tl.dot(for_scores.to(query.dtype), query, input_precision="ieee")
    part = (tl.program_id(2).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)) * count * WIDTH
    _store(for_keys + part, key * WIDTH, key < count, for_k * scale, WIDTH, COLUMNS)
    _store(for_values + part, key * WIDTH, key < count, for_v, WIDTH, COLUMNS)
