"""What the paper publishes on each claim, in a few words, computed from its figures where it gives figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd

from weakspots import statistics
from weakspots.analysis import paper_numbers


def of(claim: str) -> str | None:
    """The published figure beside a claim's own; None for a claim on which the paper has none."""
    text = _TEXTS.get(claim)
    return text() if text else None


def of_part(kind: str | None, model: str, padding: object) -> str | None:
    """The published figure beside one run's part in a claim; None where there is none."""
    if kind == "lookup" and isinstance(padding, str) and (profile := paper_numbers.profile(model, padding)) is not None:
        return f"mean {profile.mean():.1f}, worst {profile.min():.1f}, gap {np.ptp(profile):.1f}"
    if kind == "cycling":
        values = _cycled("gate_cycling_r2_excluding_boundary").get(model)
        return f"R² {min(values):.2f} to {max(values):.2f}" if values else None
    return None


def _runs(padding: str, chosen: Callable[[str], bool] = lambda model: True) -> pd.DataFrame:
    """The published profiles' summary of the compressed runs that are chosen by their name."""
    table = paper_numbers.summary()
    kept = table["model"].map(lambda model: not model.startswith("full") and chosen(model))
    return table[kept & (table["padding"] == padding)]


def _stride(model: str) -> int:
    return paper_numbers.figures()["models"][model]["stride"]


def _gaps(rows: pd.DataFrame) -> str:
    low, high = rows["gap"].min(), rows["gap"].max()
    return f"gap {low:.1f} points" if len(rows) == 1 else f"gaps of {len(rows)} runs {low:.1f} to {high:.1f} points"


def _repeating(padding: str = "prefix", chosen: Callable[[str], bool] = lambda model: True) -> str:
    rows = _runs(padding, chosen)
    repeats = [
        statistics.dominant_period(paper_numbers.profile(model, padding)) == _stride(model) for model in rows["model"]
    ]
    return f"{_gaps(rows)}; the stride is the dominant period of {sum(repeats)} of {len(rows)} published curves"


def _folded() -> Iterable[np.ndarray]:
    for model in _runs("prefix")["model"]:
        yield statistics.fold(paper_numbers.profile(model, "prefix"), _stride(model))


def _flat() -> str:
    table = paper_numbers.summary()
    full = table[table["model"].str.startswith("full")]
    return "; ".join(f"{row.model} gap {row.gap:.1f}" for row in full.itertuples())


def _hidden() -> str:
    table = paper_numbers.summary().set_index(["model", "padding"])
    ours, full = table.loc[("w8s8-8kv", "prefix")], table.loc[("full-8kv", "prefix")]
    return (
        f"w8s8-8kv beside full-8kv: mean {ours['mean']:.1f} and {full['mean']:.1f}, "
        f"worst {ours['worst']:.1f} and {full['worst']:.1f}"
    )


def _interior() -> str:
    folded = statistics.fold(paper_numbers.profile("w8s8-1kv", "prefix"), 8)
    return f"w8s8-1kv: interior phases spread by {np.ptp(folded[:-1]):.1f} of {np.ptp(folded):.1f} points"


def _weakest() -> str:
    boundary = [int(profile.argmin()) == len(profile) - 1 for profile in _folded()]
    return f"weakest at S-1 in {sum(boundary)} of {len(boundary)} runs"


def _seeds() -> str:
    rows = _runs("prefix", lambda model: model == "w8s8-1kv" or model.startswith("w8s8-1kv-seed"))
    return "gaps " + ", ".join(f"{gap:.1f}" for gap in rows["gap"])


def _full_knockouts() -> str:
    losses = paper_numbers.figures()["full-1kv_knockout_percent"]
    listed = ", ".join(f"layer {layer} {change:+.0f} %" for layer, change in losses.items())
    return f"full-1kv, alike at every position: {listed}"


def _few_phases() -> str:
    parts = []
    for layer, change in paper_numbers.figures()["w8s8-1kv_knockout_percent_by_phase"].items():
        if isinstance(change, list):
            lost = [f"phase {phase} {value:+.0f} %" for phase, value in enumerate(change) if value <= -50]
            parts.append(f"layer {layer}: {', '.join(lost)}")
    return "w8s8-1kv, " + "; ".join(parts)


def _effective() -> str:
    found = paper_numbers.figures()["w8s8-1kv_effective_offsets_static_and_per_window"]
    listed = "; ".join(f"layer {layer}: {static:.1f}, {window:.1f}" for layer, (static, window) in found.items())
    return f"w8s8-1kv, static and per window: {listed}"


def _peaks(*names: str) -> str:
    figures = paper_numbers.figures()
    layers = figures[f"w8s8-1kv{names[0]}"]
    parts = []
    for layer in layers:
        peaks = [int(np.argmax(figures[f"w8s8-1kv{name}"].get(layer, [np.nan]))) for name in names]
        if all(layer in figures[f"w8s8-1kv{name}"] for name in names):
            parts.append(f"layer {layer}: {', '.join(map(str, peaks))}")
    return "; ".join(parts)


def _later() -> str:
    peaks = _peaks("_key_gate_share_of_uniform", "_value_gate_share_rolled_back_one")
    return f"w8s8-1kv, phase of the key gate's peak and of the value gate's rolled back by one: {peaks}"


def _aligned() -> str:
    figures = paper_numbers.figures()
    keys, losses = figures["w8s8-1kv_key_gate_share_of_uniform"], figures["w8s8-1kv_knockout_percent_by_phase"]
    parts = [
        f"layer {layer}: {np.argmax(keys[layer])}, {np.argmin(losses[layer])}"
        for layer in keys
        if isinstance(losses.get(layer), list)
    ]
    return f"w8s8-1kv, phase of the key gate's peak and of the largest loss: {'; '.join(parts)}"


def _cycled(name: str) -> dict[str, list[float]]:
    return {model: values for model, values in paper_numbers.figures()[name].items() if model != "shifts"}


def _moved() -> str:
    values = np.concatenate(list(_cycled("gate_cycling_r2_excluding_boundary").values()))
    return f"R² {values.min():.2f} to {values.max():.2f}, median {np.median(values):.2f} of {len(values)} cycles"


def _cost() -> str:
    values = np.concatenate(list(_cycled("gate_cycling_mean_accuracy_change_pp").values()))
    return f"the mean changes by {values.min():.1f} to {values.max():.1f} points in {len(values)} cycles"


def _completion() -> str:
    return "; ".join(
        f"{model}: {following} of {n} rankings follow" for model, (following, n) in paper_numbers.FOLLOWING.items()
    )


def _steady() -> str:
    return "; ".join(
        f"{model}: 32 on top on {above} of {n} inputs" for model, (above, n) in paper_numbers.SECOND_ON_TOP.items()
    )


def _needles(models: Iterable[str]) -> str:
    """Mean and gap of the published needle accuracies."""
    parts = []
    for model in models:
        correct, n = paper_numbers.needle(model)
        share = 100 * correct / n
        parts.append(f"{model}: mean {share.mean():.1f}, gap {np.ptp(share):.1f}")
    return "; ".join(parts)


def _needle_models() -> list[str]:
    return list(paper_numbers.figures()["deepseek_needle_correct_by_residue_mod_8"]["prompts_per_residue"])


def _layers() -> str:
    lost = {layer: int(change.argmin()) for layer, change in paper_numbers.layer_knockout("flash-base").items()}
    parts = [f"layer {layer}: residues {worst % 4} and {worst % 4 + 4}" for layer, worst in lost.items()]
    return f"flash-base, where most is lost: {'; '.join(parts)}"


_OVERLAPPING = ("w8s4", "w8s6")

_TEXTS: dict[str, Callable[[], str]] = {
    "completion-flips-with-the-stride": _completion,
    "completion-without-compression-is-steady": _steady,
    "needle-repeats-with-the-stride": lambda: _needles(_needle_models()),
    "post-training-keeps-the-period": lambda: _needles(("flash-base", "flash-0731", "pro-base", "pro-0813")),
    "layer-losses-repeat-with-the-stride": _layers,
    "full-attention-is-flat": _flat,
    "accuracy-repeats-with-the-stride": _repeating,
    "without-rope": lambda: _repeating(chosen=lambda model: model.endswith("no-rope")),
    "with-uniform-averaging": lambda: _repeating(chosen=lambda model: "uniform" in model),
    "with-overlapping-windows": lambda: _repeating(chosen=lambda model: model.startswith(_OVERLAPPING)),
    "under-in-sequence-padding": lambda: _repeating("in_sequence"),
    "a-good-mean-hides-a-weak-position": _hidden,
    "interior-phases-differ-too": _interior,
    "the-boundary-phase-is-usually-weakest": _weakest,
    "seeds-agree": _seeds,
    "full-attention-knockouts-hurt-alike": _full_knockouts,
    "some-compressed-heads-lose-few-phases": _few_phases,
    "some-gates-static-most-input-dependent": _effective,
    "value-gates-peak-one-offset-later": _later,
    "gates-line-up-with-losses": _aligned,
    "cycling-moves-the-pattern": _moved,
    "cycling-leaves-the-boundary": lambda: "in words: S-1 stays weak under every cycle",
    "cycling-costs-accuracy": _cost,
    "theorem-1-minimizers-are-concentrated": lambda: "Theorem 1, for sufficiently large N",
    "theorem-1-distinct-positions": lambda: "Theorem 1, at ε = 0",
    "theorem-1-margin": lambda: "in words: at most of order 1/N",
    "theorem-1-small-errors": lambda: "Theorem 1, for sufficiently small ε",
    "theorem-2-flow-concentrates": lambda: "Theorem 2, with high probability",
    "theorem-2-uniformly": lambda: "Theorem 2, uniformly over contexts and chunks",
    "theorem-2-heads-may-coincide": lambda: "Theorem 2, in words",
}
