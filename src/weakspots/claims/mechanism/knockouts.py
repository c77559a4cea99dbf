"""The claims about which phases a head's knockout costs (the paper's Figure 3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from weakspots import statistics
from weakspots.analysis import paper_numbers, phase_losses
from weakspots.analysis.phase_losses import Concentration
from weakspots.analysis.results import Results
from weakspots.claims import kinds
from weakspots.claims.verdicts import Claim, Verdict, combined, parts
from weakspots.claims.wording import by_model, head_name, phases_name, spelled
from weakspots.config import PADDINGS
from weakspots.files.statuses import Status
from weakspots.model_table import WHOLE_LAYER

_PADDING = "prefix"
COSTLY, ALIKE = 10, 20
"""Percent of the clean accuracy: a knockout that matters, and how far its phases may lie apart."""
HEADS = 3
"""How many heads must lose few phases, at least."""
NARROW = 2
"""At how many adjacent phases a single head of several may lose."""
_MISSING = "no knockouts: run `snakemake knockout`"


def _run(results: Results, padding: str) -> set[str]:
    """The models with knockouts under this padding, and the lookup they are compared with."""
    return {model for model, asked in results.knockouts if asked == padding and (model, padding) in results.outcomes}


def _alike(results: Results, padding: str, model: str) -> Verdict:
    """Whether the costly knockouts of a full-attention run cost every phase alike."""
    row, clean, settings = results.models[model], results.outcomes[model, padding], results.statistics
    period = phase_losses.period_of(row, clean.shape[1])
    # with one KV head, the whole layer is that head
    answers = {
        place: knocked
        for place, knocked in results.knockouts[model, padding].items()
        if row.kv_heads > 1 or place[1] != WHOLE_LAYER
    }
    found = phase_losses.dispersions(clean, np.stack(list(answers.values())), period, settings)
    costly = [(place, loss) for place, loss in zip(answers, found, strict=True) if loss.mean >= COSTLY]
    if not costly:
        return Verdict(Status.FLAT, f"no knockout costs {COSTLY} %", len(clean))
    uneven = [
        f"{head_name(row, *place)} ({loss.spread:.1f})"
        for place, loss in costly
        if loss.spread > min(ALIKE, loss.mean) and _lost_unevenly(clean, answers[place], period, settings.seed)
    ]
    place, widest = max(costly, key=lambda item: item[1].spread)
    value = f"{len(costly)} knockouts cost that; widest spread {widest.spread:.1f}, of {head_name(row, *place)} with a "
    value += f"mean loss of {widest.mean:.1f} %" + (f"; uneven: {', '.join(uneven)}" if uneven else "")
    return Verdict(Status.of(not uneven), value, len(clean), low=widest.low, high=widest.high)


def _lost_unevenly(clean: np.ndarray, knocked: np.ndarray, period: int, seed: int) -> bool:
    """Whether the points lost differ between the retrievable phases by more than noise."""
    lost = statistics.fold(clean.astype(float) - knocked, period)
    kept = phase_losses.retrievable(statistics.profile(clean), period)
    return statistics.gap_p_value(lost[:, kept], seed=seed) < statistics.LEVEL


def _full_attention_hurts_alike(results: Results) -> Verdict:
    full = {model: row for model, row in results.models.items() if not row.compressed}
    runs = tuple(
        part
        for padding in PADDINGS
        for part in parts(full, _run(results, padding), partial(_alike, results, padding), _MISSING, padding)
    )
    judged = [part for part in runs if part.status in (Status.HOLDS, Status.FAILS)]
    uneven = [f"{part.model} ({part.padding})" for part in judged if part.status == Status.FAILS]

    def value() -> str:
        text = f"{len(judged) - len(uneven)} of {len(judged)} runs with such knockouts lose alike"
        return f"{text}; not: {', '.join(uneven)}" if uneven else text

    return combined(runs, _MISSING, lambda: bool(judged) and not uneven, value)


def _losses(results: Results, model: str) -> dict[str, Concentration]:
    """Where the losses of each KV head concentrate, by its name, as far as they can be judged; computed only once."""

    def measure(clean: np.ndarray) -> dict[str, Concentration]:
        row = results.models[model]
        answers = {
            place: knocked for place, knocked in results.knockouts[model, _PADDING].items() if place[1] != WHOLE_LAYER
        }
        found = phase_losses.concentrations(clean, np.stack(list(answers.values())), row.stride, results.statistics)
        return {head_name(row, *place): loss for place, loss in zip(answers, found, strict=True) if loss is not None}

    return results.once("losses by head", model, _PADDING, measure)


def _concentrated(results: Results, model: str, phases: int) -> dict[str, Concentration]:
    """The heads whose losses concentrate on at most this many phases, the clearest first."""
    losses = _losses(results, model).items()
    heads = {name: loss for name, loss in losses if loss.concentrated and len(loss.phases) <= phases}
    return dict(sorted(heads.items(), key=lambda item: item[1].outside - item[1].inside))


def _few_phases(phases: int, at_least: int, kv_heads: int = 1) -> Callable[[Results], Verdict]:
    """At least this many heads of compressed models with at least `kv_heads` KV heads lose at most `phases` phases."""

    def measure(results: Results) -> Verdict:
        rows = {model: row for model, row in results.models.items() if row.compressed and row.kv_heads >= kv_heads}
        run = _run(results, _PADDING)
        counts = {model: len(_concentrated(results, model, phases)) for model in rows if model in run}
        total, models = sum(counts.values()), sum(count > 0 for count in counts.values())
        value = f"{total} such heads in {models} of {len(counts)} models{by_model(counts)}"
        runs = parts(rows, run, lambda model: _heads_of(results, model, phases), _MISSING, _PADDING)
        return combined(runs, _MISSING, lambda: total >= at_least, lambda: value)

    return measure


def _heads_of(results: Results, model: str, phases: int) -> Verdict:
    """The part of one model, with its heads and the interval of the first, which is the clearest."""
    n, heads = len(results.outcomes[model, _PADDING]), _concentrated(results, model, phases)
    if not _losses(results, model):
        return Verdict(Status.FLAT, "nothing is lost, or too few phases can be compared", n)
    if not heads:
        return Verdict(Status.FAILS, "no such head", n)
    first, *_ = heads.values()
    value = "; ".join(_describe(name, loss) for name, loss in heads.items())
    return Verdict(Status.HOLDS, value, n, low=first.low, high=first.high)


def _describe(name: str, loss: Concentration) -> str:
    elsewhere = f"elsewhere {loss.outside:.1f} %, at most {max(0.0, loss.elsewhere):.1f} %"
    return f"{name} at {phases_name(loss.phases)}: {loss.inside:.1f} % lost ({elsewhere})"


def _published_in_full_attention() -> str:
    losses = paper_numbers.by_model("knockout_percent")["full-1kv"]
    listed = ", ".join(f"layer {layer} {change:+.0f} %" for layer, change in losses.items())
    return f"alike at every position; full-1kv, {listed}"


def _published_few_phases() -> str:
    """The phases at which the paper's layers lose at least half."""
    layers, counts = [], []
    for layer, change in paper_numbers.by_model("knockout_percent_by_phase")["w8s8-1kv"].items():
        lost = [f"phase {phase} {value:+.0f} %" for phase, value in enumerate(change) if value <= -50]
        layers.append(f"layer {layer}: {', '.join(lost)}")
        counts.append(len(lost))
    return f"at most {max(counts)} phases a layer; w8s8-1kv, {'; '.join(layers)}"


_SECTION = "Phase specialization: knockouts"
_CONCENTRATED = (
    f"at least {phase_losses.CONCENTRATED:.0f} % of the clean accuracy is lost there on average, and at most "
    f"1/{phase_losses.CONTRAST:.0f} of that at other phases with a clean accuracy of at least "
    f"{phase_losses.RETRIEVABLE:.0f} %"
)
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "full-attention-knockouts-hurt-alike",
        "Full-attention heads hurt alike",
        _SECTION,
        "In full attention a knockout hurts every position alike: of every head and layer whose knockout costs at "
        f"least {COSTLY} % of the clean accuracy on average, the losses at the phases "
        f"mod {phase_losses.FULL_ATTENTION_PERIOD} lie within {ALIKE} points of each other, and no further apart "
        "than their mean, or differ within the noise (both paddings; of phases with a clean accuracy of at least "
        f"{phase_losses.RETRIEVABLE:.0f} %).",
        _full_attention_hurts_alike,
        kinds.KNOCKOUT,
        _published_in_full_attention,
    ),
    Claim(
        "some-compressed-heads-lose-few-phases",
        "Some heads lose few phases",
        _SECTION,
        "Under compression some heads' losses concentrate on a few phases (prefix padding): at least "
        f"{spelled(HEADS)} KV heads over all models on at most {phase_losses.ADJACENT} adjacent ones "
        f"({_CONCENTRATED}; the difference's interval lies above 0), and at no other phase more than half of it is "
        "lost.",
        _few_phases(phase_losses.ADJACENT, at_least=HEADS),
        kinds.KNOCKOUT,
        _published_few_phases,
    ),
    Claim(
        "single-heads-of-several-lose-one-or-two-phases",
        "… single heads of several, too",
        _SECTION,
        "Phase specialization occurs in single heads, not only in whole layers: in models with several KV heads, at "
        f"least one head's loss concentrates, in the same sense, on one or {spelled(NARROW)} adjacent phases (prefix "
        "padding).",
        _few_phases(NARROW, at_least=1, kv_heads=2),
        kinds.KNOCKOUT,
    ),
)
"""In the paper's order."""
