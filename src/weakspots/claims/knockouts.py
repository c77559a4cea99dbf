"""The claims about which phases a head's knockout costs (the paper's Figure 3)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weakspots import statistics
from weakspots.analysis import phase_losses
from weakspots.analysis.phase_losses import Concentration
from weakspots.analysis.results import Results
from weakspots.claims.counting import by_model, counted, head_name, not_run, phases_name
from weakspots.claims.verdicts import Claim, Verdict
from weakspots.config import PADDINGS
from weakspots.model_table import WHOLE_LAYER

_PADDING = "prefix"
_COSTLY, _ALIKE = 10, 20
"""Percent of the clean accuracy: a knockout that matters, and how far its phases may lie apart."""
_MISSING = "no knockouts: run `snakemake knockout`"


def _is_run(results: Results, model: str, padding: str) -> bool:
    return (model, padding) in results.knockouts and (model, padding) in results.outcomes


def _full_parts(results: Results) -> tuple[Verdict, ...]:
    """One part per full-attention run: whether its costly knockouts cost every phase alike."""
    return tuple(
        _alike(results, model, padding)
        if _is_run(results, model, padding)
        else not_run(results, model, padding, _MISSING)
        for padding in PADDINGS
        for model, row in results.models.items()
        if not row.compressed
    )


def _alike(results: Results, model: str, padding: str) -> Verdict:
    row, clean, settings = results.models[model], results.outcomes[model, padding], results.statistics
    period = phase_losses.period_of(row, clean.shape[1])
    # with one KV head, the whole layer is that head
    heads = {at: of for at, of in results.knockouts[model, padding].items() if row.kv_heads > 1 or at[1] != WHOLE_LAYER}
    found = phase_losses.dispersions(clean, np.stack(list(heads.values())), period, settings)
    costly = [(at, loss) for at, loss in zip(heads, found, strict=True) if loss.mean >= _COSTLY]
    about = {"n": len(clean), "seeds": str(row.seed), "model": model, "padding": padding}
    if not costly:
        return Verdict("flat", f"no knockout costs {_COSTLY} %", **about)
    uneven = [
        f"{head_name(row, *at)} ({loss.spread:.1f})"
        for at, loss in costly
        if loss.spread > min(_ALIKE, loss.mean) and _lost_unevenly(clean, heads[at], period, settings.seed)
    ]
    at, widest = max(costly, key=lambda item: item[1].spread)
    value = f"{len(costly)} knockouts cost that; widest spread {widest.spread:.1f}, of {head_name(row, *at)} with a "
    value += f"mean loss of {widest.mean:.1f} %" + (f"; uneven: {', '.join(uneven)}" if uneven else "")
    return Verdict("fails" if uneven else "holds", value, low=widest.low, high=widest.high, **about)


def _lost_unevenly(clean: np.ndarray, knocked: np.ndarray, period: int, seed: int) -> bool:
    """Whether the points lost differ between the retrievable phases by more than noise."""
    lost = statistics.fold(clean.astype(float) - knocked, period)
    kept = phase_losses.retrievable(statistics.profile(clean), period)
    return statistics.gap_p_value(lost[:, kept], seed=seed) < statistics.LEVEL


def _full_attention_hurts_alike(results: Results) -> Verdict:
    parts = _full_parts(results)
    judged = [part for part in parts if part.status in ("holds", "fails")]
    uneven = [f"{part.model} ({part.padding})" for part in judged if part.status == "fails"]

    def value() -> str:
        text = f"{len(judged) - len(uneven)} of {len(judged)} runs with such knockouts lose alike"
        return f"{text}; not: {', '.join(uneven)}" if uneven else text

    return counted(parts, _MISSING, lambda: bool(judged) and not uneven, value)


def _local(results: Results, model: str) -> dict[str, Concentration] | None:
    """The KV heads by name whose loss is concentrated, the clearest first; None where no head's loss can be judged.

    Computed once for each model.
    """

    def measure(clean: np.ndarray) -> dict[str, Concentration] | None:
        row = results.models[model]
        heads = {at: of for at, of in results.knockouts[model, _PADDING].items() if at[1] != WHOLE_LAYER}
        losses = phase_losses.concentrations(clean, np.stack(list(heads.values())), row.stride, results.statistics)
        if not any(losses):
            return None
        found = [(head_name(row, *at), loss) for at, loss in zip(heads, losses, strict=True)]
        found = [(name, loss) for name, loss in found if loss is not None and loss.concentrated]
        return dict(sorted(found, key=lambda item: item[1].outside - item[1].inside))

    return results.once("local losses", model, _PADDING, measure)


def _describe(name: str, loss: Concentration) -> str:
    elsewhere = f"elsewhere {loss.outside:.1f} %, at most {max(0.0, loss.elsewhere):.1f} %"
    return f"{name} at {phases_name(loss.phases)}: {loss.inside:.1f} % lost ({elsewhere})"


def _few_phases(phases: int, at_least: int, several: bool = False) -> Callable[[Results], Verdict]:
    """At least so many KV heads of compressed models lose at most so many `phases`.

    With `several`, only models with several KV heads count.
    """

    def measure(results: Results) -> Verdict:
        rows = {model: row for model, row in results.models.items() if row.compressed and row.kv_heads > several}
        run = [model for model in rows if _is_run(results, model, _PADDING)]
        found = {model: _local(results, model) for model in run}
        kept = {
            model: heads and {name: loss for name, loss in heads.items() if len(loss.phases) <= phases}
            for model, heads in found.items()
        }
        parts = tuple(
            _few_phases_part(results, model, kept[model])
            if model in kept
            else not_run(results, model, _PADDING, _MISSING)
            for model in rows
        )
        counts = {model: len(heads or []) for model, heads in kept.items()}
        total, models = sum(counts.values()), sum(count > 0 for count in counts.values())
        value = f"{total} such heads in {models} of {len(counts)} models{by_model(counts)}"
        return counted(parts, _MISSING, lambda: total >= at_least, lambda: value)

    return measure


def _few_phases_part(results: Results, model: str, heads: dict[str, Concentration] | None) -> Verdict:
    """The part of one model, with its heads and the interval of the first, which is the clearest."""
    about = {"n": len(results.outcomes[model, _PADDING]), "seeds": str(results.models[model].seed)}
    about |= {"model": model, "padding": _PADDING}
    if heads:
        first = next(iter(heads.values()))
        value = "; ".join(_describe(name, loss) for name, loss in heads.items())
        return Verdict("holds", value, low=first.low, high=first.high, **about)
    if heads is None:
        return Verdict("flat", "nothing is lost, or too few phases can be compared", **about)
    return Verdict("fails", "no such head", **about)


_SECTION = "Phase specialization: knockouts"
_CONCENTRATED = (
    f"at least {phase_losses.CONCENTRATED:.0f} % of the clean accuracy is lost there on average, and at most "
    f"1/{phase_losses.CONTRAST:.0f} of that at other phases with a clean accuracy of at least "
    f"{phase_losses.RETRIEVABLE:.0f} %"
)
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "full-attention-knockouts-hurt-alike",
        _SECTION,
        "In full attention a knockout hurts every position alike: of every head and layer whose knockout costs at "
        f"least {_COSTLY} % of the clean accuracy on average, the losses at the phases "
        f"mod {phase_losses.FULL_ATTENTION_PERIOD} lie within {_ALIKE} points of each other, and no further apart "
        "than their mean, or differ within the noise (both paddings; of phases with a clean accuracy of at least "
        f"{phase_losses.RETRIEVABLE:.0f} %).",
        _full_attention_hurts_alike,
    ),
    Claim(
        "some-compressed-heads-lose-few-phases",
        _SECTION,
        "Under compression some heads' losses concentrate on a few phases (prefix padding): at least three KV heads "
        f"over all models on at most {phase_losses.ADJACENT} adjacent ones ({_CONCENTRATED}; the difference's interval "
        f"lies above 0), and at no other phase more than half of it is lost.",
        _few_phases(phase_losses.ADJACENT, at_least=3),
    ),
    Claim(
        "single-heads-of-several-lose-one-or-two-phases",
        _SECTION,
        "Phase specialization occurs in single heads, not only in whole layers: in models with several KV heads, at "
        "least one head's loss concentrates, in the same sense, on one or two adjacent phases (prefix padding).",
        _few_phases(2, at_least=1, several=True),
    ),
)
"""The claims about knockouts, in the paper's order."""
