"""The joint attention on a GPU: the Triton kernel against SDPA full attention and FlexAttention, one run.

    python benchmarks/gpu.py [--rounds 20] [--heads 16] [--kv-heads 1] [--width 128]
    python benchmarks/gpu.py --present       says nothing where there is a GPU; exit status 2 where there is none

W = S = 8, a sliding window of 16, bfloat16, 65,536 tokens in every batch: texts of 2,048 to 65,536. FlexAttention gets
entries and tokens as one list of keys and a block mask. Each time is the median of the rounds, by the card's own clock.
Operations (4 D per visible pair and head forward, 10 D backward) and bytes (every tensor once) are those that the
mathematics needs, and are shown as shares of the matmul and copy rates that the same card has just reached. Without a
GPU it says so and measures nothing. Exits with 1 below a bar, and says what to try next.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from weakspots.attention import pooling
from weakspots.attention.memory import Memory

TOKENS = 65_536
LENGTHS = [2048, 4096, 8192, 16384, 32768, 65536]
MEMORY = Memory(8, 8, 0, "sliding", 16)
BARS = {4096: 1.0, 8192: 1.0, 16384: 2.0, 32768: 1.0, 65536: 1.0}
"""Least speed of forward and backward together, relative to SDPA full attention."""
NEXT_STEP = (
    "next: try other TILE and num_stages in src/weakspots/attention/triton_attend.py; then let _weigh, _pull and "
    "backward_keys skip the comparison of positions in blocks that are visible as a whole"
)


@dataclass(frozen=True)
class Work:
    """What one pass over a batch must compute and move at least."""

    operations: float
    bytes: float


def visible_pairs(memory: Memory | None, length: int) -> int:
    """Pairs of a query and a key that it sees in one text and head; all tokens before it if `memory` is None."""
    positions = torch.arange(length)
    if memory is None:
        return length * (length + 1) // 2
    local = (positions - memory.local_start(positions) + 1).clamp(min=0)
    return int((memory.entries_seen(positions) + local).sum())


def work(memory: Memory | None, length: int, heads: int, kv_heads: int, width: int) -> tuple[Work, Work]:
    """Least work of a forward and of a backward pass over `TOKENS` tokens, in bfloat16."""
    texts = TOKENS // length
    pairs = texts * heads * visible_pairs(memory, length)
    keys = 2 * kv_heads * (length + (memory.entry_count(length) if memory else 0))
    queries, bytes_each = heads * length, 2 * width * texts
    forward = Work(4 * width * pairs, bytes_each * (2 * queries + keys))  # q, k, v read; out written
    backward = Work(10 * width * pairs, bytes_each * (4 * queries + 2 * keys))  # and out, its gradient; dq, dk, dv
    return forward, backward


def flex_visible(memory: Memory, length: int) -> Callable:
    """The mask of FlexAttention over entries, then tokens."""
    entries, first, stride = memory.entry_count(length), memory.first_query, memory.stride

    def visible(batch, head, query, key):
        seen = torch.where(query >= first, (query - first) // stride + 1, 0)
        token = key - entries
        local = (token <= query) & (token > query - memory.local_window)
        return torch.where(key < entries, key < seen, local)

    return visible


def flex(memory: Memory, length: int, grouped: bool) -> Callable:
    """FlexAttention as a function of queries, keys, values, entry keys and entry values."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    keys = memory.entry_count(length) + length
    mask = create_block_mask(flex_visible(memory, length), None, None, length, keys, device="cuda", _compile=True)
    compiled = torch.compile(flex_attention, dynamic=False)

    def attend(queries, keys, values, entry_keys, entry_values):
        keys, values = torch.cat([entry_keys, keys], dim=2), torch.cat([entry_values, values], dim=2)
        return compiled(queries, keys, values, block_mask=mask, enable_gqa=grouped)

    return attend


def milliseconds(run: Callable[[], object], rounds: int) -> float:
    """Median time of `run` on the card, after three runs that are not counted."""
    for _ in range(3):
        run()
    times = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def passes(attend: Callable, inputs: list[torch.Tensor], rounds: int) -> tuple[float, float]:
    """Milliseconds of the forward and of the backward pass."""
    with torch.no_grad():
        forward = milliseconds(lambda: attend(*inputs), rounds)
    out = attend(*inputs)
    upstream = torch.randn_like(out)
    used = [tensor for tensor in inputs if tensor.requires_grad]
    backward = milliseconds(
        lambda: torch.autograd.grad(out, used, upstream, retain_graph=True, allow_unused=True), rounds
    )
    return forward, backward


def rates() -> tuple[float, float]:
    """Operations per second of a bfloat16 matrix product, and bytes per second of a copy, on this card."""
    side = 8192
    a, b = (torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = 2 * side**3 / (milliseconds(lambda: a @ b, 20) / 1e3)
    source = torch.empty(2**29, device="cuda", dtype=torch.bfloat16)
    target = torch.empty_like(source)
    copy = 2 * source.nbytes / (milliseconds(lambda: target.copy_(source), 20) / 1e3)
    return product, copy


def measure(length: int, heads: int, kv_heads: int, width: int, rounds: int) -> dict[str, tuple[float, float] | str]:
    """Forward and backward milliseconds of every kernel, or why there are none."""
    from weakspots.attention import triton_attend

    texts, entries = TOKENS // length, MEMORY.entry_count(length)
    shapes = [(heads, length), (kv_heads, length), (kv_heads, length), (kv_heads, entries), (kv_heads, entries)]
    inputs = [
        torch.randn(texts, *shape, width, device="cuda", dtype=torch.bfloat16, requires_grad=True) for shape in shapes
    ]
    grouped = heads != kv_heads

    def full(queries, keys, values, *_):
        return F.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=grouped)

    found: dict[str, tuple[float, float] | str] = {
        "triton": passes(lambda *x: triton_attend.attend(*x, MEMORY), inputs, rounds),
        "SDPA, full attention": passes(full, inputs, rounds),
    }
    try:
        found["FlexAttention"] = passes(flex(MEMORY, length, grouped), inputs, rounds)
    except Exception as error:  # a card or a version that it does not support must not hide the other rows
        found["FlexAttention"] = f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
    return found


def pooling_line(heads: int, width: int, rounds: int, copy: float) -> str:
    """The pooling kernel at one KV head, beside torch's and beside the time that its bytes take at the copy rate."""
    from weakspots.attention import triton_pool

    entries = TOKENS // MEMORY.stride
    product = torch.randn(8, 1, entries, heads * (width + 1), device="cuda", dtype=torch.bfloat16, requires_grad=True)
    bias = torch.randn(8, heads, device="cuda", requires_grad=True)
    times = [
        sum(passes(lambda *x, pool=pool: pool(*x, heads, width, 0), [product, bias], rounds))
        for pool in (triton_pool.pool, pooling.pool)
    ]
    least = 1e3 * 3 * product.nbytes / copy  # read forward and backward, its gradient written
    return f"pooling, {heads} heads: triton {times[0]:.3f} ms, torch {times[1]:.3f} ms, its bytes alone {least:.3f} ms"


def missed(speeds: dict[int, float]) -> list[str]:
    """One sentence for each text length whose speed relative to SDPA is below its bar."""
    return [
        f"T = {length}: {speeds[length]:.2f} times SDPA's speed, the bar is {bar:.1f}"
        for length, bar in BARS.items()
        if length in speeds and speeds[length] < bar
    ]


def main() -> int:
    """Prints the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--present", action="store_true", help="only check that there is a GPU")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--kv-heads", type=int, default=1)
    parser.add_argument("--width", type=int, default=128)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        if arguments.present:
            print("gpu-check: this machine has no GPU that torch can use; run it on one that has", file=sys.stderr)
            return 2
        print("no GPU: not measured")
        return 0
    if arguments.present:
        return 0
    shape = arguments.heads, arguments.kv_heads, arguments.width
    product, copy = rates()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, bfloat16, {TOKENS:,} tokens a batch")
    print(f"{shape[0]} heads of {shape[2]}, {shape[1]} KV, W8/S8, window of 16; median of {arguments.rounds} rounds")
    print(f"measured rates: matmul {product / 1e12:.0f} TFLOP/s, copy {copy / 1e12:.2f} TB/s\n")
    print("| T | kernel | forward ms | backward ms | speed | of matmul rate | of copy rate |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    speeds = {}
    for length in LENGTHS:
        found = measure(length, *shape, arguments.rounds)
        reference = sum(found["SDPA, full attention"])
        for name, times in found.items():
            if isinstance(times, str):
                print(f"| {length} | {name} | {times} | | | | |")
                continue
            needed = work(None if name.startswith("SDPA") else MEMORY, length, *shape)
            seconds = sum(times) / 1e3
            operations = sum(part.operations for part in needed) / seconds / product
            moved = sum(part.bytes for part in needed) / seconds / copy
            print(
                f"| {length} | {name} | {times[0]:.3f} | {times[1]:.3f} | {reference / sum(times):.2f} | "
                f"{100 * operations:.0f} % | {100 * moved:.0f} % |"
            )
        speeds[length] = reference / sum(found["triton"])
    print("\n" + pooling_line(2 * arguments.kv_heads, arguments.width, arguments.rounds, copy))
    if misses := missed(speeds):
        print("\n".join(["below the bar:", *misses, NEXT_STEP]), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
