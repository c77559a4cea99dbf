"""A weakness of the model or of the server: the same prompts on two backends, paired.

Two backends of one model disagree on some prompts anyway (other arithmetic, near ties). A fault of one of them is told
by its place: of the prompts that the other answers it loses more at one phase than anywhere else, and more there than
it gains. The first alone would take near ties, which are frequent where the model itself is weak, for a fault; the
second alone would take a server that is a little worse everywhere for one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from weakspots.audit.decide import PHASE_KINDS, Finding, positions
from weakspots.audit.design import Design, phase, phases
from weakspots.audit.prompts import Batch


@dataclass(frozen=True)
class Paired:
    """The phase at which one backend loses most answers that the other has.

    `worse` is 0 or 1, the backend that loses. `here` and `elsewhere` are percent lost of the prompts that the other
    backend answers rightly, at that phase and at the others. `p_value` is corrected for all phases, periods and
    directions. `disagreement` is percent of all prompts.
    """

    found: bool
    p_value: float
    worse: int
    kind: str
    period: int
    phase: int
    here: float
    elsewhere: float
    disagreement: float


def exact_p_value(lost: np.ndarray, here: np.ndarray, row: np.ndarray) -> float:
    """The probability of at least as many `lost` prompts [n] `here` [n], both boolean, if the place did not matter.

    Exact, given how many prompts of every mapping (`row` [n]) are lost and how many are here: each mapping's lost
    prompts fall on any of its prompts alike (hypergeometric), and mappings add up (convolution). With one mapping it is
    Fisher's exact test. A constant rate of losses, also one that differs between mappings, leaves it valid.
    """
    columns = (np.bincount(row, some).astype(int).tolist() for some in (np.ones(len(row)), lost, here))
    groups = Counter(zip(*columns, strict=True))
    total = np.ones(1)
    for (prompts, gone, places), times in groups.items():
        if gone and places:
            total = np.convolve(total, _repeated(stats.hypergeom.pmf(range(gone + 1), prompts, gone, places), times))
    return float(min(1.0, total[int((lost & here).sum()) :].sum()))


def _repeated(chances: np.ndarray, times: int) -> np.ndarray:
    """The distribution of the sum of `times` draws."""
    result = np.ones(1)
    while times:
        if times % 2:
            result = np.convolve(result, chances)
        chances, times = np.convolve(chances, chances), times // 2
    return result


def paired(batch: Batch, first: np.ndarray, second: np.ndarray, design: Design, level: float) -> Paired:
    """Two exact tests at every phase of every period, for either kind of phase and either backend (Bonferroni).

    Both must reject, so the p-value of a phase is the larger one: that of its place (`exact_p_value`, among the prompts
    that the other backend answers), and McNemar's of losses against gains at that phase.
    """
    best, tests = None, 0
    for worse, (right, mine) in enumerate(((second, first), (first, second))):
        row, lost = np.unique(batch.mapping[right], return_inverse=True)[1], ~mine[right]
        gained = mine & ~right
        for kind in PHASE_KINDS:
            for period in design.periods:
                labels = phase(positions(batch, kind), period)
                tests += phases(period)
                for number in range(phases(period)):
                    here = labels[right] == number
                    if not here.any() or here.all() or lost[here].mean() <= lost.mean():
                        continue  # fewer than expected: its p-value is above a half or so, and never the smallest
                    gone, won = int(lost[here].sum()), int(gained[labels == number].sum())
                    against = stats.binom.sf(gone - 1, gone + won, 0.5)
                    if best is not None and against >= best[0]:
                        continue
                    chance = max(float(against), exact_p_value(lost, here, row))
                    if best is None or chance < best[0]:
                        shares = 100 * float(lost[here].mean()), 100 * float(lost[~here].mean())
                        best = chance, worse, kind, period, number, *shares
    disagreement = 100 * float((first != second).mean())
    if best is None:
        return Paired(False, 1.0, 0, PHASE_KINDS[0], max(design.asked), 0, 0.0, 0.0, disagreement)
    p_value = min(1.0, tests * best[0])
    return Paired(p_value <= level, p_value, *best[1:], disagreement)


def attribute(
    one: Sequence[Finding], other: Sequence[Finding], test: Paired, names: Sequence[str], statuses: Sequence[str]
) -> tuple[str, str]:
    """Whose weakness it is: "server", "model", "both", "unclear" or "none"; and a sentence.

    "server" means that one backend alone has it: with a model loaded here as the other one, the server. `names` and
    `statuses` (`report.Judged`) are of both backends.
    """
    shared = [(a.kind, a.period) for a, b in zip(one, other, strict=True) if a.found and b.found]
    alone = [a.kind for a, b in zip(one, other, strict=True) if a.found != b.found]
    both = " and ".join(f"{kind} phase modulo {period}" for kind, period in shared)
    if test.found:
        where = "the target stands" if test.kind == "needle" else "the prompt's length is"
        sentence = (
            f"A fault of {names[test.worse]} alone: where {where} at phase {test.phase} modulo {test.period} it loses "
            f"{test.here:.0f} % of the prompts that the other answers, elsewhere {test.elsewhere:.1f} % "
            f"(exact paired test, p = {test.p_value:.2g})."
        )
        return ("both", f"{sentence} Besides, both share a weakness: {both}.") if shared else ("server", sentence)
    same = f"they disagree on {test.disagreement:.1f} % of the prompts, and no more at any phase than at others"
    if shared:
        return "model", f"A weakness of the model: both backends have it ({both}); {same}."
    if "floor" in statuses:
        floored = " and ".join(name for name, status in zip(names, statuses, strict=True) if status == "floor")
        return "unclear", f"No verdict: too few answers of {floored} are right for a phase to show; {same}."
    if alone:
        return "unclear", f"Only one backend shows a weakness ({alone[0]} phase), but their difference is not settled."
    if "unsettled" in statuses:
        high = max(finding.gap_high for finding in (*one, *other))
        return "none", f"No periodic weak spot found; gaps up to {high:.0f} points are not ruled out; {same}."
    return "none", f"Neither backend shows a periodic weak spot; {same}."
