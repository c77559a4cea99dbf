"""Preparing tokens (encode, pack, hash, write shards) against `tokenizers`' own `encode_batch`.

Same text (the State of the Union addresses, in memory), same byte-level BPE, same number of threads, in one process, in
interleaved rounds. The bar is the median of the rounds' ratios: exits with 1 below `--bar`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from weakspots.config import Corpus

CORPUS = Corpus.model_validate(
    {
        "source": {"kind": "local", "paths": ["package:state_of_the_union.parquet"]},
        "tokenizer": {"kind": "bytes", "vocabulary": 2048, "training_documents": 60},
        "stages": [{"length": 256, "sequences": 1_000_000}],
        "shard_tokens": 1_000_000,
        "training": {
            "steps": 1,
            "batch_tokens": 256,
            "learning_rate": 1e-3,
            "warmup_steps": 0,
            "decay_fraction": 0.0,
            "weight_decay": 0.0,
            "loss_on": "all",
            "validation_sequences": 1,
        },
    }
)


def seconds(work: Callable[[], None]) -> float:
    """Wall time of `work`."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure(workers: int, rounds: int) -> tuple[int, list[tuple[float, float]]]:
    """The number of tokens of the text, and for every round the seconds of `encode_batch` and of preparing it."""
    # tokenizers reads these when it is first used.
    os.environ["RAYON_NUM_THREADS"] = str(workers)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if workers > 1 else "false"
    from weakspots.data.corpora import documents
    from weakspots.data.packing import write_shards
    from weakspots.data.tokenization import Encoder, build_tokenizer

    tokenizer = build_tokenizer(CORPUS)
    text = list(documents(CORPUS, 0, "train"))
    encoder = Encoder(tokenizer)
    tokens = 0

    def encode() -> None:
        tokenizer.backend_tokenizer.encode_batch([document.text for document in text], add_special_tokens=False)

    def prepare() -> None:
        nonlocal tokens
        with TemporaryDirectory() as folder:
            lines = write_shards(
                Path(folder),
                lambda start: islice(text, start, None),
                encoder,
                start=0,
                token_limit=sys.maxsize,
                shard_tokens=CORPUS.shard_tokens,
                with_answers=False,
                workers=workers,
            )
        tokens = sum(line["tokens"] for line in lines)

    encode(), prepare()  # both have warm caches from here on
    times = []
    for number in range(rounds):
        if number % 2:
            preparing, encoding = seconds(prepare), seconds(encode)
        else:
            encoding, preparing = seconds(encode), seconds(prepare)
        times.append((encoding, preparing))
    return tokens, times


def main() -> None:
    """Prints both speeds and their ratio; ends with 1 below the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--workers", type=int, default=len(os.sched_getaffinity(0)), help="threads (default: all cores)"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bar", type=float, default=0.9, help="least median ratio")
    arguments = parser.parse_args()

    tokens, times = measure(arguments.workers, arguments.rounds)
    print(f"{tokens:,} tokens of prose, {arguments.workers} threads; thousand tokens a second\n")
    print("| round | encode_batch | prepare | ratio |\n|---|---|---|---|")
    for number, (encoding, preparing) in enumerate(times, start=1):
        rates = tokens / encoding / 1000, tokens / preparing / 1000
        print(f"| {number} | {rates[0]:,.0f} | {rates[1]:,.0f} | {encoding / preparing:.2f} |")
    ratio = statistics.median(encoding / preparing for encoding, preparing in times)
    passed = ratio >= arguments.bar
    print(f"\nmedian ratio {ratio:.2f}, bar {arguments.bar}: {'reached' if passed else 'missed'}")
    sys.exit(not passed)


if __name__ == "__main__":
    main()
