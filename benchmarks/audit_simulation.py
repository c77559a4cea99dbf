"""The audit's error rates, by simulation: false alarms over flat models, and how often gaps of 5, 10, 20 points show.

A model is imagined: half of its mappings are always right or always wrong, as a real small model's are, and the others
are right by chance; a gap is one weak phase of period 8, and the audit is asked about stride 8. Everything from the
design on is the audit's own: places, looks, tests, stopping. Gaps are tried with as many prompts as the plan asks for.
Prints, per case, how often a period was found, how often the right one, how often the stated bounds miss the true gap,
and how much was asked. Exits with 1 where false alarms or missed bounds are above 5 %, or the power is below 80 % by
more than the simulation's own error (two standard errors).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/audit"))
from imagined import imagined, nothing, weak_phase

from weakspots.audit import power
from weakspots.audit.design import design
from weakspots.audit.follow import follow
from weakspots.audit.sequential import looks

STRIDE, LEVEL = 8, 0.05


def simulate(gap: float, planned_gap: float, models: int) -> dict[str, float]:
    """Shares over `models` audits of models with a gap of `gap` points, planned for `planned_gap` points."""
    asked = design((STRIDE,))
    plan = power.needed(asked, planned_gap, LEVEL)
    effect = weak_phase(gap / 100, STRIDE, 3) if gap else nothing
    found, right, above, below, prompts, early = [], [], [], [], [], []
    for seed in range(models):
        seen = follow(imagined(asked, effect, seed=seed), asked, looks(plan.mappings, LEVEL), planned_gap, seed=seed)
        needle = seen.findings[0][0]
        found.append(any(finding.found for finding in seen.findings[0]))
        right.append(needle.found and needle.period == STRIDE)
        above.append(needle.gap_low > gap + 1e-9)
        below.append(needle.gap_high < gap - 1e-9)
        prompts.append(len(seen.batch.mapping))
        early.append(seen.settled and seen.mappings < plan.mappings)
    rates = zip(("found", "right", "above", "below", "early"), (found, right, above, below, early), strict=True)
    return {"planned": plan.prompts, "prompts": np.mean(prompts), **{name: np.mean(some) for name, some in rates}}


def main() -> int:
    """Print the table; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flat", type=int, default=1000, help="flat models")
    parser.add_argument("--models", type=int, default=100, help="models per gap")
    arguments = parser.parse_args()
    missed = False
    print("| gap | models | found | period right | low too high | high too low | prompts planned | asked | early |")
    print("|---|---|---|---|---|---|---|---|---|")
    cases = [(0, 20, arguments.flat), *((gap, gap, arguments.models) for gap in (20, 10, 5))]
    for gap, planned, models in cases:
        seen = simulate(gap, planned, models)
        shares = " | ".join(f"{100 * seen[name]:.1f} %" for name in ("found", "right", "above", "below"))
        asked = f"{seen['planned']} | {seen['prompts']:.0f} | {100 * seen['early']:.0f} %"
        print(f"| {gap} | {models} | {shares} | {asked} |", flush=True)
        noise = 2 * np.sqrt(0.05 * 0.95 / models)
        if gap == 0:
            missed |= seen["found"] > 0.05
        else:
            missed |= seen["found"] < power.POWER - 2 * np.sqrt(0.16 / models)
        missed |= max(seen["above"], seen["below"]) > 0.05 + noise
    print(
        f"bars: false alarms at most 5 %, power 80 %, either bound wrong at most 5 %: {'missed' if missed else 'kept'}"
    )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
