"""The claims about DeepSeek's needle test: its period, what post-training changes, the control."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from weakspots import statistics
from weakspots.analysis import paper_numbers, phase_losses
from weakspots.analysis.results import Results
from weakspots.claims import kinds
from weakspots.claims.deepseek.stand_ins import SECTION, models, periodicity, together
from weakspots.claims.lookup.repetition import FLAT_GAP
from weakspots.claims.verdicts import Claim, Verdict, all_hold, most_hold_and_none_fails
from weakspots.config.deepseek import DeepseekModel
from weakspots.files.statuses import Status

POST_TRAINED = {"flash-0731": "flash-base", "pro-0813": "pro-base"}
"""The checkpoint that each post-trained one comes from, as rows of the model table."""


def _repetition(results: Results, model: str) -> Verdict:
    outcomes, stride = results.needles[model], results.deepseek[model].stride
    if stride not in statistics.candidate_periods(outcomes.shape[1]):
        return Verdict(Status.NOT_RUN, f"modulus {outcomes.shape[1]} does not show the period {stride} twice")
    found, n = periodicity(results, outcomes), len(outcomes)
    if found.flat:
        return Verdict(Status.FLAT, f"gap {found.gap:.1f} is within the noise", n)
    measured = statistics.profile(outcomes)
    apart = f"gap {found.gap:.1f}, mean |A(r) − A(r+{stride})| {statistics.apart(measured, stride):.1f}"
    value = f"no period is significant (p = {found.p_value:.2g}), {apart}"
    if found.period:
        value = f"period {found.period} (p = {found.p_value:.1g}, dominant in {found.share:.0%} of replicates), {apart}"
    return _with_gap(results, outcomes, Verdict(Status.of(found.period == stride), value, n))


def _with_gap(results: Results, outcomes: np.ndarray, verdict: Verdict) -> Verdict:
    """The verdict with the interval of the gap."""
    settings = results.statistics
    drawn = statistics.gap(statistics.bootstrap(outcomes, settings.bootstrap, settings.seed))
    low, high = statistics.interval(drawn, settings.confidence)
    return replace(verdict, low=float(low), high=float(high))


def _period_equals_stride(results: Results) -> Verdict:
    compressed = models(results, kinds.NEEDLE, lambda _, row: bool(row.stride), _repetition, _published_gap)
    return together(results, compressed, "models repeat with their stride", most_hold_and_none_fails)


def _improvement(results: Results, model: str) -> Verdict:
    """Of a post-trained model and what it comes from, on the words that both were asked about."""
    base = POST_TRAINED[model]
    if base not in results.needles:
        return Verdict(Status.NOT_RUN, f"no needle table of {base}")
    before, after = results.needles[base], results.needles[model]
    if before.shape[1] != after.shape[1]:
        return Verdict(Status.NOT_RUN, f"asked at other residues than {base}")
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
    return Verdict(Status.of(holds), value, n, low=float(low), high=float(high))


def _post_training_keeps_the_period(results: Results) -> Verdict:
    def chosen(model: str, row: DeepseekModel) -> bool:
        return model in POST_TRAINED and row.stand_in is None

    pairs = models(results, kinds.NEEDLE, chosen, _improvement, _published_improvement)
    return together(results, pairs, "post-trained models do", all_hold)


def _flatness(results: Results, model: str) -> Verdict:
    outcomes = results.needles[model]
    found, mean = periodicity(results, outcomes), float(statistics.profile(outcomes).mean())
    value = f"gap {found.gap:.1f}, p = {found.gap_p_value:.2g} if position did not matter, mean {mean:.1f}"
    if mean < phase_losses.RETRIEVABLE:
        return Verdict(Status.FLAT, f"{value}: too few answers for any to be missing", len(outcomes))
    flat = found.flat or (found.gap <= FLAT_GAP and found.period is None)
    value += f", period {found.period}" if found.period else ""
    return _with_gap(results, outcomes, Verdict(Status.of(flat), value, len(outcomes)))


def _control_is_flat(results: Results) -> Verdict:
    controls = models(results, kinds.NEEDLE, lambda _, row: not row.stride, _flatness)
    return together(results, controls, "models without compression are flat", all_hold)


def _published(model: str) -> tuple[float, float] | None:
    """Mean and gap of the accuracy that the paper shows, in percent; None where it shows none."""
    found = paper_numbers.needle(model)
    if found is None:
        return None
    accuracy = 100 * found[0] / found[1]
    return float(accuracy.mean()), float(np.ptp(accuracy))


def _published_gap(model: str) -> str:
    found = _published(model)
    return "not shown" if found is None else f"gap {found[1]:.1f}, mean {found[0]:.1f}"


def _published_improvement(model: str) -> str:
    before, after = _published(POST_TRAINED[model]), _published(model)
    assert before is not None and after is not None, model
    return f"mean {before[0]:.1f} to {after[0]:.1f}, gap {before[1]:.1f} to {after[1]:.1f}"


def _published_of(models: Iterable[str]) -> str:
    found = {model: shown for model in models if (shown := _published(model)) is not None}
    gaps = [gap for _, gap in found.values()]
    listed = "; ".join(f"{model}: mean {mean:.1f}, gap {gap:.1f}" for model, (mean, gap) in found.items())
    return f"gaps {min(gaps):.1f} to {max(gaps):.1f}; {listed}"


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "needle-repeats-with-the-stride",
        "Needle repeats with the stride",
        SECTION,
        "DeepSeek's needle accuracy repeats with the stride of its compressed sparse attention: that of most "
        "compressed models, beyond the noise, and of none beyond the noise with another dominant period.",
        _period_equals_stride,
        kinds.NEEDLE,
        lambda: _published_of(paper_numbers.needles()),
    ),
    Claim(
        "post-training-keeps-the-period",
        "Post-training keeps the period",
        SECTION,
        "Post-training raises accuracy and narrows the gap, and it keeps the period: the mean of every post-trained "
        "model lies above that of the checkpoint it comes from, with its interval, its gap is smaller, and it repeats "
        "with its stride.",
        _post_training_keeps_the_period,
        kinds.NEEDLE,
        lambda: _published_of(name for trained, base in POST_TRAINED.items() for name in (base, trained)),
    ),
    Claim(
        "needle-without-compression-is-flat",
        "Needle flat without compression",
        SECTION,
        f"Without compression the residue does not matter: every model without it that answers at least "
        f"{phase_losses.RETRIEVABLE:.0f} % has a gap within the noise, or one of at most {FLAT_GAP} points that "
        "repeats with no period (a check of this project; the paper shows its control on the completion alone).",
        _control_is_flat,
        kinds.NEEDLE,
    ),
)
"""The claims about the needle, in the paper's order."""
