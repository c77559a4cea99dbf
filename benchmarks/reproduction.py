"""The laptop reproduction: how long, where the time goes, how much memory, and what its models reach.

    python benchmarks/reproduction.py          # of the last complete run in this folder
    python benchmarks/reproduction.py --run    # does everything again first, and measures memory

Exits with 1 where a bar is missed. Accuracies are under prefix padding, in percent; gaps are best minus worst position.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

import psutil

from weakspots import results

MINUTES, GIB = 30, 8
FULL_MEAN, FULL_GAP, SEED_GAP = 60, 6.1, 40


def run() -> float:
    """Runs the whole workflow again; returns the most memory its processes held together, in GiB."""
    process = psutil.Popen(["snakemake", "--forceall"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        held = 0
        for part in [process, *process.children(recursive=True)]:
            try:
                held += part.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        peak = max(peak, held)
        time.sleep(1)
    if process.returncode:
        sys.exit("the workflow failed: run `snakemake` to see why")
    return peak / 2**30


def read_log(path: Path) -> tuple[float, Counter, Counter]:
    """Minutes of wall clock, core minutes by rule, and jobs by rule of one Snakemake log."""
    stamp = r"^\[(\w+ \w+ +\d+ [\d:]+ \d+)\]\n"
    text = path.read_text()

    def when(value: str) -> datetime:
        return datetime.strptime(value, "%a %b %d %H:%M:%S %Y")

    started = {
        job: (rule, when(at))
        for at, rule, job in re.findall(stamp + r"(?:local)?rule (\w+):\n(?:    .*\n)*?    jobid: (\d+)\n", text, re.M)
    }
    minutes, jobs = Counter(), Counter()
    last = None
    for at, job in re.findall(stamp + r"Finished jobid: (\d+)", text, re.M):
        rule, begin = started[job]
        last = when(at)
        minutes[rule] += (last - begin).total_seconds() / 60
        jobs[rule] += 1
    first = datetime.strptime(re.search(r"  Date: (.*)", text)[1].strip(), "%Y-%m-%d %H:%M:%S")
    return (last - first).total_seconds() / 60, minutes, jobs


def accuracy_bars(folder: Path) -> bool:
    """Prints what the models reach; True if a bar is missed."""
    found = results.read(folder)
    missed = False

    def bar(text: str, reached: bool) -> None:
        nonlocal missed
        missed |= not reached
        print(f"  {'reached' if reached else 'MISSED '}  {text}")

    seeds = []
    graded = 0
    repeating, flat, others = 0, 0, []
    for model, padding in found.runs():
        row, summary = found.models[model], found.summary(model, padding)["estimate"]
        accuracy = 100 * found.outcomes[model, padding].mean(axis=0)
        graded += ((accuracy > 10) & (accuracy < 90)).mean() > 0.1
        if not row.compressed and padding == "prefix":
            good = summary["mean"] >= FULL_MEAN and summary["gap"] <= FULL_GAP
            bar(f"{model}: mean {summary['mean']:.1f}, gap {summary['gap']:.1f}", good)
        if model.split("-seed")[0] == "w8s8-1kv" and padding == "prefix":
            seeds.append(summary["gap"])
        if row.compressed:
            period = found.periodicity(model, padding)
            if period.flat:
                flat += 1
            elif period.period == row.stride:
                repeating += 1
            else:
                others.append(f"{model} {padding}: {period.period} instead of {row.stride}")
    wide = sum(gap >= SEED_GAP for gap in seeds)
    bar(f"W8/S8 · 1 KV: gaps {', '.join(f'{gap:.1f}' for gap in seeds)} for {len(seeds)} seeds", wide >= 3)
    bar(f"graded: {graded} runs have more than a tenth of their positions between 10 and 90 %", graded > 0)
    what = f"{repeating} of {repeating + len(others)} compressed runs with a gap beyond noise repeat with their stride"
    bar("; ".join([f"{what}, {flat} are flat", *others]), not others)
    return missed


def main() -> int:
    """Prints the report; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="store_true", help="do everything again first")
    arguments = parser.parse_args()
    missed = False
    if arguments.run:
        peak = run()
        missed |= peak > GIB
        print(f"memory: {peak:.1f} GiB at most (bar {GIB})")
    logs = sorted(Path(".snakemake/log").glob("*.snakemake.log"))
    whole = next((log for log in reversed(logs) if "Finished jobid: 0 (Rule: all)" in log.read_text()), None)
    if whole is None:
        sys.exit("no complete run in this folder: run `make reproduce` first, or use --run")
    wall, minutes, jobs = read_log(whole)
    print(f"wall clock: {wall:.1f} minutes (bar {MINUTES} on two cores, for a run from nothing); minutes of jobs:")
    for rule, spent in minutes.most_common():
        print(f"  {rule:14s} {spent:6.1f}  in {jobs[rule]} jobs")
    missed |= wall > MINUTES
    return int(accuracy_bars(Path("results/laptop")) or missed)


if __name__ == "__main__":
    sys.exit(main())
