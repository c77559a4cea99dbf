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

import numpy as np
import psutil

from weakspots.analysis import cycling_prediction, phase_losses, results
from weakspots.files import tables
from weakspots.files.statuses import Status
from weakspots.model_table import WHOLE_LAYER
from weakspots.workflow.layout import Layout

MINUTES, MINUTES_WITHOUT_AVX512, GIB = 30, 45, 8
CLAIMS = 29  # that hold, of the 31 that need no model of DeepSeek's
FULL_MEAN, FULL_GAP, SEED_GAP = 60, 6.1, 40
MECHANISM, MECHANISM_MINUTES = ("cycling_model", "figure_3", "figure_4", "figure_5", "figure_6"), 6
CONCENTRATED_HEADS, R_SQUARED = 3, 0.66


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


def bar(text: str, reached: bool) -> bool:
    """Prints one line of the report; True if the bar is missed."""
    print(f"  {'reached' if reached else 'MISSED '}  {text}")
    return not reached


def mechanism_bars(found: results.Results) -> bool:
    """Prints what knockouts and cycling show; True if a bar is missed."""
    heads, agreed = 0, []
    for (model, padding), knocked_out in found.knockouts.items():
        row = found.models[model]
        if row.compressed and padding == "prefix":
            of_heads = np.stack([outcomes for at, outcomes in knocked_out.items() if at[1] != WHOLE_LAYER])
            clean = found.outcomes[model, padding]
            losses = phase_losses.concentrations(clean, of_heads, row.stride, found.statistics)
            heads += sum(loss is not None and loss.concentrated for loss in losses)
    for model, cycles in found.cycles.items():
        clean = found.outcomes.get((model, found.cycling_padding))  # None: not learnt, and without cycles
        for shift, outcomes in cycles.items():
            stride = found.models[model].stride
            r2 = cycling_prediction.r_squared(clean[: len(outcomes)], outcomes, shift, stride, found.statistics)
            agreed.append(r2["without_boundary"][0] if r2["correlation"] > 0 else 0.0)
    missed = bar(f"{heads} heads lose on at most three adjacent phases", heads >= CONCENTRATED_HEADS)
    median = np.median(agreed)
    return bar(f"R² of cycling: median {median:.2f}, from {min(agreed):.2f}", median >= R_SQUARED) or missed


def accuracy_bars(found: results.Results) -> bool:
    """Prints what the models reach; True if a bar is missed."""
    missed = False
    seeds = []
    graded = compressed = 0
    repeating, flat, others = 0, 0, []
    for model, padding in found.runs():
        row, summary = found.models[model], found.summary(model, padding)["estimate"]
        accuracy = 100 * found.outcomes[model, padding].mean(axis=0)
        if not row.compressed and padding == "prefix":
            good = summary["mean"] >= FULL_MEAN and summary["gap"] <= FULL_GAP
            missed |= bar(f"{model}: mean {summary['mean']:.1f}, gap {summary['gap']:.1f}", good)
        if model.split("-seed")[0] == "w8s8-1kv" and padding == "prefix":
            seeds.append(summary["gap"])
        if row.compressed:
            compressed += 1
            graded += ((accuracy > 10) & (accuracy < 90)).mean() > 0.1
            period = found.periodicity(model, padding)
            if period.flat:
                flat += 1
            elif period.period == row.stride:
                repeating += 1
            else:
                others.append(f"{model} {padding}: {period.period} instead of {row.stride}")
    wide = sum(gap >= SEED_GAP for gap in seeds)
    missed |= bar(f"W8/S8 · 1 KV: gaps {', '.join(f'{gap:.1f}' for gap in seeds)} for {len(seeds)} seeds", wide >= 3)
    what = f"graded: {graded} of {compressed} compressed runs have over a tenth of their positions between 10 and 90 %"
    missed |= bar(what, graded > compressed / 2)
    what = f"{repeating} of {repeating + len(others)} compressed runs with a gap beyond noise repeat with their stride"
    return bar("; ".join([f"{what}, {flat} are flat", *others]), not others) or missed


def claims_bar(layout: Layout) -> bool:
    """Prints how many claims hold and which do not; True if too few do."""
    table = tables.read(layout.claims("parquet"), "claims")
    whole = table[table["model"].isna()].set_index("claim")["status"]
    run = whole[whole != Status.NOT_RUN]
    held = run == Status.HOLDS
    failing = ", ".join(run.index[~held]) or "none"
    return bar(f"{held.sum()} of {len(run)} claims hold (bar {CLAIMS}); not: {failing}", held.sum() >= CLAIMS)


def allowed() -> int:
    """Minutes that a run may take on this kind of processor."""
    return MINUTES if "avx512f" in Path("/proc/cpuinfo").read_text() else MINUTES_WITHOUT_AVX512


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
    print(f"wall clock: {wall:.1f} minutes (bar {allowed()} on two cores, for a run from nothing); minutes of jobs:")
    for rule, spent in minutes.most_common():
        print(f"  {rule:14s} {spent:6.1f}  in {jobs[rule]} jobs")
    missed |= wall > allowed()
    # two jobs side by side; knockouts are part of the lookups (benchmarks/knockout.py: what they add to a plain pass)
    mechanism = sum(minutes[rule] for rule in MECHANISM) / 2
    missed |= bar(f"cycling and Figures 3 to 6 add {mechanism:.1f} minutes", mechanism <= MECHANISM_MINUTES)
    missed |= claims_bar(Layout("results/laptop"))
    found = results.read("results/laptop")
    if found.not_learnt:
        print(f"not learnt, and left out below: {', '.join(found.not_learnt)}")
        found = found.evidence()
    missed |= accuracy_bars(found)
    return int(mechanism_bars(found) or missed)


if __name__ == "__main__":
    sys.exit(main())
