"""What checkpoints cost a training run at the default interval, and what a second run beside it costs.

    python benchmarks/checkpointing.py [--steps 200] [--model w8s8-1kv]

First: a laptop model is trained and its checkpoints are timed in the same run; their share is the seconds of one
checkpoint over those of `resume_every` steps. Then the same training alone on one core, and two of them side by side,
each on a core of its own, interleaved, medians of three. Exits with 1 where a checkpoint costs more than 3 % or the
neighbour more than 10 %.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

CHECKPOINT_BAR, NEIGHBOUR_BAR = 3.0, 10.0


def run(model: str, data: str, steps: int, resume_every: int, core: int | None, result) -> None:
    """One training in a process of its own; puts tokens per second (median of rows) and seconds per checkpoint."""
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    import torch

    from weakspots.config import load
    from weakspots.machine.allocator import keep_freed_memory
    from weakspots.training import checkpoint, loop

    torch.set_num_threads(1)
    keep_freed_memory()
    logging.disable()
    config = load(Path("config.yaml"))
    corpus = config.corpora["recall"]
    changes = {"steps": steps, "resume_every": resume_every, "checkpoint_steps": [], "warmup_steps": 10}
    corpus = corpus.model_copy(update={"training": corpus.training.model_copy(update=changes)})
    seconds, save = [], checkpoint.save

    def timed(*arguments) -> None:
        begin = time.perf_counter()
        save(*arguments)
        seconds.append(time.perf_counter() - begin)

    checkpoint.save = timed
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        rows = loop.train(config.models[model], config.backbone, corpus, Path(data), Path(folder))["training"]
    result.put((rows["tokens_per_second"].iloc[2:].median(), statistics.median(seconds) if seconds else None))


def side_by_side(count: int, *arguments) -> list[tuple[float, float | None]]:
    """Results of `count` trainings at once, each on its core."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    children = [context.Process(target=run, args=(*arguments, core, queue)) for core in range(count)]
    for child in children:
        child.start()
    results = [queue.get() for _ in children]
    for child in children:
        child.join()
    return results


def main() -> int:
    """Prints the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--model", default="w8s8-1kv")
    arguments = parser.parse_args()
    from weakspots.config import load
    from weakspots.data.prepare import prepare

    config = load(Path("config.yaml"))
    training = config.corpora["recall"].training
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "recall"
        with contextlib.redirect_stderr(io.StringIO()):
            prepare(config.corpora["recall"], "recall", data, workers=1)
        job = arguments.model, str(data), arguments.steps
        alone, together = [], []
        for _ in range(3):
            alone += side_by_side(1, *job, 20)
            together += side_by_side(2, *job, 20)
    speed = statistics.median(rate for rate, _ in alone)
    seconds = statistics.median(cost for _, cost in alone if cost is not None)
    interval = training.resume_every * training.batch_tokens / speed
    share = 100 * seconds / interval
    lost = 100 * (1 - statistics.median(rate for rate, _ in together) / speed)
    print(f"checkpoint: {1e3 * seconds:.0f} ms every {training.resume_every} steps ({interval:.1f} s): {share:.2f} %")
    print(f"alone {speed / 1e3:.1f}k tokens/s; with a neighbour on the other core {lost:.1f} % less")
    print(json.dumps({"checkpoint_percent": round(share, 3), "neighbour_percent": round(lost, 2)}))
    return int(share > CHECKPOINT_BAR or lost > NEIGHBOUR_BAR)


if __name__ == "__main__":
    sys.exit(main())
