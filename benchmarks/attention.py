"""Forward and backward of a whole model on a CPU: chunk-compressed against full attention (SDPA, causal), one run.

    python benchmarks/attention.py [--threads 2] [--rounds 5]

W = S = 8, one KV head, width 128, 4 layers, 4 query heads of 32, batch 1. Also shown: the same compressed model with
the dense T x T mask of the definition. Exits with 1 below a bar.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from unittest import mock

import torch

from weakspots.attention import choose, naive
from weakspots.config import Backbone
from weakspots.model.configuration import WeakSpotsConfig
from weakspots.model.transformer import WeakSpotsForCausalLM
from weakspots.model_table import ModelRow, model_row

BARS = {2048: 1.3, 8192: 2.5}
BACKBONE = Backbone(
    layers=4, width=128, query_heads=4, head_width=32, mlp_width=384, rope_base=10_000.0, initial_std=0.02
)


def dense(queries, keys, values, entry_keys, entry_values, memory):
    """The definition, in place of the blocked kernel."""
    positions = torch.arange(queries.shape[2])
    return naive.attend(queries, positions, keys, values, positions, entry_keys, entry_values, memory)


def run(model: torch.nn.Module, inputs: torch.Tensor) -> float:
    """Seconds of one forward and backward."""
    begin = time.perf_counter()
    model(inputs, labels=inputs).loss.backward()
    seconds = time.perf_counter() - begin
    model.zero_grad()
    return seconds


def main() -> int:
    """Prints the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    def model(row: ModelRow) -> WeakSpotsForCausalLM:
        return WeakSpotsForCausalLM(WeakSpotsConfig.of(row, BACKBONE, 256))

    full, compressed = model(model_row(compressor="none")), model(model_row())
    missed = False
    print(f"{arguments.threads} thread(s), median of {arguments.rounds} rounds, forward and backward of 4 layers")
    for length, bar in BARS.items():
        inputs = torch.randint(0, 256, (1, length))
        times: dict[str, list[float]] = {"full attention": [], "W8/S8": [], "W8/S8, dense mask": []}
        for number in range(arguments.rounds + 1):
            measured = {"full attention": run(full, inputs), "W8/S8": run(compressed, inputs)}
            if length <= 4096:
                with mock.patch.object(choose, "attend", dense):
                    measured["W8/S8, dense mask"] = run(compressed, inputs)
            if number:
                for name, seconds in measured.items():
                    times[name].append(seconds)
        medians = {name: statistics.median(values) for name, values in times.items() if values}
        for name, seconds in medians.items():
            print(f"  T = {length:5d}  {name:18s} {1e3 * seconds:8.1f} ms  {medians['full attention'] / seconds:5.2f}x")
        ratio = medians["full attention"] / medians["W8/S8"]
        print(f"  T = {length:5d}  compressed against full attention: {ratio:.2f} (bar {bar})")
        missed |= ratio < bar
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
