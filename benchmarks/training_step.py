"""A training step at laptop shape: this project's full attention against transformers' Qwen3, float32, one run.

    python benchmarks/training_step.py [--threads 1] [--rounds 15]

Same shape, same batch, same optimiser; rounds are interleaved and the medians compared, with a loss on a quarter of
the tokens (answers, as the recall corpus has it) and on all. This project computes the last layer's MLP and the logits
at the tokens that are learnt only, transformers at all of them. Exits with 1 where the first ratio is below the bar.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from weakspots.config import load
from weakspots.model.configuration import WeakSpotsConfig
from weakspots.model.transformer import WeakSpotsForCausalLM
from weakspots.model_table import ModelRow, model_row
from weakspots.planning.counts import flops_per_token
from weakspots.training.throughput import matmul_rate, peak_memory

BAR = 1.2


def qwen3(shape: WeakSpotsConfig) -> Qwen3ForCausalLM:
    """transformers' model of the same shape."""
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=shape.vocab_size,
            hidden_size=shape.hidden_size,
            intermediate_size=shape.intermediate_size,
            num_hidden_layers=shape.num_hidden_layers,
            num_attention_heads=shape.num_attention_heads,
            num_key_value_heads=shape.num_key_value_heads,
            head_dim=shape.head_dim,
            rope_parameters={"rope_type": "default", "rope_theta": shape.rope_base},
            tie_word_embeddings=True,
        )
    )


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, labels: torch.Tensor) -> float:
    """Seconds of one forward, backward, clip and update."""
    begin = time.perf_counter()
    model(input_ids=inputs, labels=labels, use_cache=False).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return time.perf_counter() - begin


def main() -> int:
    """Prints the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    config = load("config.yaml")
    corpus = config.corpora["recall"]
    length = corpus.stages[-1].length
    batch = corpus.training.batch_tokens // length
    vocabulary = corpus.source.keys + corpus.source.values + 1
    inputs = torch.randint(0, vocabulary, (batch, length))
    some = inputs.masked_fill(torch.arange(length) % 4 != 1, -100)

    def ours(row: ModelRow) -> WeakSpotsForCausalLM:
        return WeakSpotsForCausalLM(WeakSpotsConfig.of(row, config.backbone, vocabulary))

    shape = WeakSpotsConfig.of(model_row(compressor="none"), config.backbone, vocabulary)
    rows = {"full attention": model_row(compressor="none"), "W8/S8": model_row(), "W8/S4": model_row(stride=4)}
    models = {"transformers Qwen3": qwen3(shape), **{name: ours(row) for name, row in rows.items()}}
    rate = matmul_rate(torch.device("cpu"), "float32")
    shares = {name: flops_per_token(row, config.backbone, vocabulary, length) / rate for name, row in rows.items()}
    shares["transformers Qwen3"] = shares["full attention"]
    optimizers = {name: torch.optim.AdamW(model.parameters(), fused=True) for name, model in models.items()}
    print(f"batch {batch} x {length} tokens, {arguments.threads} thread(s), median of {arguments.rounds} steps")
    ratios = {}
    for what, labels in (("answers", some), ("all tokens", inputs)):
        times: dict[str, list[float]] = {name: [] for name in models}
        for number in range(arguments.rounds + 2):
            for name, model in models.items():
                seconds = step(model, optimizers[name], inputs, labels)
                if number >= 2:
                    times[name].append(seconds)
        medians = {name: statistics.median(values) for name, values in times.items()}
        for name, seconds in medians.items():
            ratio = medians["transformers Qwen3"] / seconds
            speed = batch * length / seconds
            # the count is for a loss on all tokens: with fewer, some of it is not computed
            used = f"{100 * speed * shares[name]:3.0f} % MFU" if what == "all tokens" else " " * 9
            print(
                f"  loss on {what:10s}  {name:20s} {1e3 * seconds:7.1f} ms  {speed / 1e3:6.1f}k tokens/s  {used}  "
                f"{ratio:5.2f}x"
            )
        ratios[what] = medians["transformers Qwen3"] / medians["full attention"]
    print(f"a large product: {rate / 1e9:.0f} GFLOP/s; peak memory {peak_memory(torch.device('cpu')):.1f} GiB")
    print(f"full attention against transformers' Qwen3: {ratios['answers']:.2f} (bar {BAR})")
    return 0 if ratios["answers"] >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
