"""The claims about DeepSeek's needle test: its period, what post-training changes, the control."""

from __future__ import annotations

import numpy as np

from weakspots import statistics
from weakspots.analysis import paper_numbers, phase_losses
from weakspots.analysis.results import Results
from weakspots.claims.deepseek_verdicts import SECTION, parts, periodicity, together
from weakspots.claims.lookup import FLAT_GAP
from weakspots.claims.verdicts import Claim, Verdict, all_hold, most_hold_and_none_fails
from weakspots.config.deepseek import DeepseekModel

POST_TRAINED = {"flash-0731": "flash-base", "pro-0813": "pro-base"}
"""The checkpoint that each post-trained one comes from, as rows of the model table."""


def _repetition(results: Results, model: str) -> Verdict:
    outcomes, stride = results.needles[model], results.deepseek[model].stride
    if stride not in statistics.candidate_periods(outcomes.shape[1]):
        return Verdict("not run", f"modulus {outcomes.shape[1]} does not show the period {stride} twice")
    found, n = periodicity(results, outcomes), len(outcomes)
    if found.flat:
        return Verdict("flat", f"gap {found.gap:.1f} is within the noise", n)
    measured = statistics.profile(outcomes)
    apart = f"gap {found.gap:.1f}, mean |A(r) − A(r+{stride})| {statistics.apart(measured, stride):.1f}"
    value = f"no period is significant (p = {found.p_value:.2g}), {apart}"
    if found.period:
        value = f"period {found.period} (p = {found.p_value:.1g}, dominant in {found.share:.0%} of replicates), {apart}"
    return _with_gap(results, outcomes, Verdict("holds" if found.period == stride else "fails", value, n))


def _with_gap(results: Results, outcomes: np.ndarray, verdict: Verdict) -> Verdict:
    """The verdict with the interval of the gap."""
    settings = results.statistics
    drawn = statistics.gap(statistics.bootstrap(outcomes, settings.bootstrap, settings.seed))
    low, high = statistics.interval(drawn, settings.confidence)
    return Verdict(verdict.status, verdict.value, verdict.n, low=float(low), high=float(high))


def _published_needle(model: str) -> str:
    found = paper_numbers.needle(model)
    if found is None:
        return "not shown"
    return f"gap {np.ptp(100 * found[0] / found[1]):.1f}, mean {100 * found[0].mean() / found[1]:.1f}"


def _period_equals_stride(results: Results) -> Verdict:
    compressed = parts(results, "needle", lambda _, row: bool(row.stride), _repetition, _published_needle)
    return together(results, compressed, "models repeat with their stride", most_hold_and_none_fails)


def _improvement(results: Results, model: str) -> Verdict:
    """Of a post-trained model and what it comes from, on the words that both were asked about."""
    base = POST_TRAINED[model]
    if base not in results.needles:
        return Verdict("not run", f"no needle table of {base}")
    before, after = results.needles[base], results.needles[model]
    if before.shape[1] != after.shape[1]:
        return Verdict("not run", f"asked at other residues than {base}")
    n = min(len(before), len(after))
    both, settings = np.stack([before[:n], after[:n]]), results.statistics
    drawn = statistics.bootstrap(both, settings.bootstrap, settings.seed).mean(axis=-1)
    low, high = statistics.interval(drawn[1] - drawn[0], settings.confidence)
    means, gaps = statistics.profile(both.swapaxes(0, 1)).mean(axis=-1), np.ptp(both.mean(axis=1), axis=-1) * 100
    found, stride = periodicity(results, after), results.deepseek[model].stride
    value = (
        f"mean {means[0]:.1f} to {means[1]:.1f}, gap {gaps[0]:.1f} to {gaps[1]:.1f}, "
        f"period {found.period or ('none: flat' if found.flat else 'none')}"
    )
    holds = low > 0 and gaps[1] < gaps[0] and found.period == stride
    return Verdict("holds" if holds else "fails", value, n, low=float(low), high=float(high))


def _published_improvement(model: str) -> str:
    means, gaps = [], []
    for name in (POST_TRAINED[model], model):
        correct, n = paper_numbers.needle(name)
        means.append(f"{100 * correct.mean() / n:.1f}")
        gaps.append(f"{np.ptp(100 * correct / n):.1f}")
    return f"mean {' to '.join(means)}, gap {' to '.join(gaps)}"


def _post_training_keeps_the_period(results: Results) -> Verdict:
    def chosen(model: str, row: DeepseekModel) -> bool:
        return model in POST_TRAINED and row.stand_in is None

    pairs = parts(results, "needle", chosen, _improvement, _published_improvement)
    return together(results, pairs, "post-trained models do", all_hold)


def _flatness(results: Results, model: str) -> Verdict:
    outcomes = results.needles[model]
    found, mean = periodicity(results, outcomes), float(statistics.profile(outcomes).mean())
    value = f"gap {found.gap:.1f}, p = {found.gap_p_value:.2g} if position did not matter, mean {mean:.1f}"
    if mean < phase_losses.RETRIEVABLE:
        return Verdict("flat", f"{value}: too few answers for any to be missing", len(outcomes))
    flat = found.flat or (found.gap <= FLAT_GAP and found.period is None)
    value += f", period {found.period}" if found.period else ""
    return _with_gap(results, outcomes, Verdict("holds" if flat else "fails", value, len(outcomes)))


def _control_is_flat(results: Results) -> Verdict:
    controls = parts(results, "needle", lambda _, row: not row.stride, _flatness)
    return together(results, controls, "models without compression are flat", all_hold)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "needle-repeats-with-the-stride",
        SECTION,
        "DeepSeek's needle accuracy repeats with the stride of its compressed sparse attention: that of most "
        "compressed models, beyond the noise, and of none beyond the noise with another dominant period.",
        _period_equals_stride,
    ),
    Claim(
        "post-training-keeps-the-period",
        SECTION,
        "Post-training raises accuracy and narrows the gap, and it keeps the period: the mean of every post-trained "
        "model lies above that of the checkpoint it comes from, with its interval, its gap is smaller, and it repeats "
        "with its stride.",
        _post_training_keeps_the_period,
    ),
    Claim(
        "needle-without-compression-is-flat",
        SECTION,
        f"Without compression the residue does not matter: every model without it that answers at least "
        f"{phase_losses.RETRIEVABLE:.0f} % has a gap within the noise, or one of at most {FLAT_GAP} points that "
        "repeats with no period (a check of this project; the paper shows its control on the completion alone).",
        _control_is_flat,
    ),
)
"""The claims about the needle, in the paper's order."""
