"""The one-token sweep over all knockouts against the naive hook, which reads the whole prompt once per knockout.

Same models (random weights), prompts, batch and process; both give the logits of every knockout. Two shapes: the
laptop's (a model of one KV head and one of 8), and 28 layers x 8 KV heads with prompts of 160 tokens on a narrow model.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch

from weakspots.config import Backbone
from weakspots.machine.allocator import keep_freed_memory
from weakspots.mechanism.all_knockouts import final_states, knockouts
from weakspots.mechanism.knockout import knocked_out
from weakspots.model.configuration import WeakSpotsConfig
from weakspots.model.transformer import WeakSpotsForCausalLM
from weakspots.model_table import ModelRow, model_row

LAPTOP = Backbone(layers=2, width=64, query_heads=8, head_width=16, mlp_width=192, rope_base=1e4, initial_std=0.02)
DEEP = Backbone(layers=28, width=64, query_heads=16, head_width=8, mlp_width=192, rope_base=1e6, initial_std=0.02)
CASES = [
    # name, backbone, row, prompts, tokens, repetitions, bar
    ("laptop, W8/S8, 8 KV heads", LAPTOP, model_row(kv_heads=8), 64, 113, 5, 10),
    ("laptop, full attention, 8 KV heads", LAPTOP, model_row(compressor="none", kv_heads=8), 64, 113, 5, 10),
    ("laptop, W8/S8, 1 KV head", LAPTOP, model_row(), 64, 113, 5, None),
    ("28 layers, W8/S8, 8 KV heads", DEEP, model_row(kv_heads=8), 8, 160, 1, 50),
    ("28 layers, full attention, 8 KV heads", DEEP, model_row(compressor="none", kv_heads=8), 8, 160, 1, 50),
]


def timed(action, repetitions: int) -> tuple[torch.Tensor, float]:
    """What one call returns, and the median wall-clock seconds of a call."""
    times = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        result = action()
        times.append(time.perf_counter() - begin)
    return result, statistics.median(times)


def compare(backbone: Backbone, row: ModelRow, prompts: int, length: int, repetitions: int) -> tuple[float, ...]:
    """Seconds of the naive hook and of the sweep, over all knockouts of all prompts, and of one plain pass.

    Checks that hook and sweep agree.
    """
    torch.manual_seed(0)
    model = WeakSpotsForCausalLM(WeakSpotsConfig.of(row, backbone, 161, 0)).eval()
    tokens = torch.randint(0, 161, (prompts, length))
    means = torch.randn(backbone.layers, backbone.query_heads * backbone.head_width)

    def naive() -> torch.Tensor:
        logits = []
        for layer, head in knockouts(model):
            with knocked_out(model, layer, head, means):
                logits.append(model(tokens, logits_to_keep=1, use_cache=False).logits[:, -1])
        return torch.stack(logits, dim=1)

    def sweep() -> torch.Tensor:
        return model.lm_head(final_states(model, tokens, means))[:, 1:]

    with torch.inference_mode():
        _, of_plain = timed(lambda: model(tokens, logits_to_keep=1, use_cache=False).logits, 5)
        expected, of_naive = timed(naive, repetitions)
        found, of_sweep = timed(sweep, max(3, repetitions))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    return of_naive, of_sweep, of_plain


def main() -> int:
    """Print the table; 1 where a bar is missed."""
    torch.set_num_threads(1)
    keep_freed_memory()
    missed = False
    print("all knockouts of a batch of prompts, 1 thread, medians")
    for name, backbone, row, prompts, length, repetitions, bar in CASES:
        naive, sweep, plain = compare(backbone, row, prompts, length, repetitions)
        ratio = naive / sweep
        missed |= bar is not None and ratio < bar
        note = f"(bar {bar})" if bar else "(2 knockouts in all: no bar)"
        print(f"  {name:38s} hook {naive:7.2f} s  sweep {sweep:6.3f} s  {ratio:5.1f}x {note}; plain {plain:.3f} s")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
