"""The claims about what gates prefer, and how that lines up with knockouts (the paper's Figures 4 and 5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from weakspots.analysis import alignment, gate_preferences, paper_numbers, phase_losses
from weakspots.analysis.results import Results
from weakspots.claims import kinds
from weakspots.claims.verdicts import Claim, Verdict, combined, parts
from weakspots.claims.wording import by_model, head_name
from weakspots.files.statuses import Status
from weakspots.model_table import ModelRow

_PADDING = "prefix"
DIAGONAL = 0.8
"""Per-window over static effective number: at least this lies on the diagonal, where every window scores alike."""
ENOUGH = 3
"""Heads from which on an interval over heads means anything."""
_MISSING = "no gate statistics: run `snakemake gates`"


def _scalar_gates(results: Results) -> dict[str, ModelRow]:
    """The rows of models with a learned scalar gate."""
    return {model: row for model, row in results.models.items() if row.gate_kind == "scalar"}


def _key_gates(results: Results, model: str) -> pd.DataFrame:
    """The key gate of every head at the end of training, whether it is static, and whether it depends on the input."""
    last = gate_preferences.final(results.gates[model])
    keys = last[last["branch"] == "key"].drop_duplicates(["layer", "head"])
    alike = keys["per_window"] >= DIAGONAL * keys["static"]
    few = keys["static"] <= results.models[model].window / 2
    return keys.assign(is_static=alike & few, depends=~alike)


def _static_and_input_dependent(results: Results) -> Verdict:
    rows = _scalar_gates(results)
    gates = {model: _key_gates(results, model) for model in rows if model in results.gates}

    def measure(model: str) -> Verdict:
        keys = gates[model]
        still, depends = keys[keys["is_static"]], int(keys["depends"].sum())
        named = ", ".join(
            f"{head_name(rows[model], gate.layer, gate.head)} ({gate.static:.1f}, {gate.per_window:.1f})"
            for gate in still.itertuples()
        )
        value = f"{len(still)} of {len(keys)} static{f': {named}' if named else ''}; {depends} input-dependent"
        return Verdict(Status.of(len(still) > 0 and depends > 0), value)

    total = sum(map(len, gates.values()))
    static = {model: int(keys["is_static"].sum()) for model, keys in gates.items()}
    dependent = sum(int(keys["depends"].sum()) for keys in gates.values())
    return combined(
        parts(rows, gates, measure, _MISSING),
        _MISSING,
        lambda: sum(static.values()) >= 1 and dependent > total / 2,
        lambda: (
            f"{sum(static.values())} static, {dependent} input-dependent of {total} key gates; static "
            f"{by_model(static).removeprefix('; ') or 'in none'}"
        ),
    )


def _value_follows_key(results: Results) -> Verdict:
    rows = {model: row for model, row in _scalar_gates(results).items() if not row.tied}
    peaks = {model: _specialised_peaks(results, model) for model in rows if model in results.gates}

    def measure(model: str) -> Verdict:
        row, heads = rows[model], peaks[model]
        if heads.empty:
            return Verdict(Status.FLAT, "no head is specialised in both branches")
        listed = "; ".join(
            f"{head_name(row, layer, head)} {key} and {(value + 1) % row.stride}"
            for (layer, head), key, value in zip(heads.index, heads["key"], heads["value"], strict=True)
        )
        count = int(heads["follows"].sum())
        value = f"{count} of {len(heads)}; key and value peak at {listed}"
        return Verdict(Status.of(count > len(heads) / 2), value)

    follow = {model: int(heads["follows"].sum()) for model, heads in peaks.items()}
    total = sum(map(len, peaks.values()))
    return combined(
        parts(rows, peaks, measure, _MISSING),
        _MISSING,
        lambda: sum(follow.values()) > total / 2,
        lambda: f"one later in {sum(follow.values())} of {total} specialised heads{by_model(follow)}",
    )


def _specialised_peaks(results: Results, model: str) -> pd.DataFrame:
    """The phases that the gates of specialised heads prefer most, by layer and head: columns key, value and follows.

    The value's is rolled back by one, so it follows the key's where the two are the same. A head is specialised if both
    its gates are static.
    """
    row = results.models[model]
    profiles = gate_preferences.by_phase(gate_preferences.final(results.gates[model]), row)
    head = ["layer", "head", "branch"]
    peaks = profiles.pivot(index=head, columns="phase", values="preference").idxmax(axis=1).unstack("branch")
    static = profiles.groupby(head)["static"].first().unstack("branch")
    peaks = peaks[(static <= row.stride / 2).all(axis=1)].astype(int)
    follows = peaks["value"] == peaks["key"]
    if row.window == row.stride:  # the last offset has no successor in its window
        follows &= peaks["key"] < row.stride - 1
    return peaks.assign(follows=follows)


def _lines_up(results: Results) -> Verdict:
    rows = {model: row for model, row in results.models.items() if row.gate_kind not in (None, "uniform")}
    tables = (results.outcomes, results.knockouts)
    run = {model for model in results.gates if all((model, _PADDING) in table for table in tables)}
    heads = alignment.concentrated(results, _PADDING)
    pooled = alignment.pooled(results, _PADDING)
    keys = pooled.loc["key"]
    counting = pooled[pooled["heads"] >= ENOUGH]  # tied models have key gates only
    listed = ", ".join(
        f"{branch} gates {found.correlation:+.2f} ({found.low:+.2f} to {found.high:+.2f}, {found.heads:.0f} heads)"
        for branch, found in counting.iterrows()
    )
    too_few = f"{keys['heads']:.0f} heads are concentrated in their key gate and their losses"

    def measure(model: str) -> Verdict:
        return _aligned(heads[heads["model"] == model], len(results.outcomes[model, _PADDING]))

    verdict = combined(
        parts(rows, run, measure, "no knockouts or no gate statistics", _PADDING),
        "no model with knockouts and gate statistics: run `snakemake knockout gates`",
        lambda: "key" in counting.index and (counting["low"] > 0).all(),
        lambda: f"{listed}; mean correlations" if listed else f"{too_few}: too few",
    )
    if verdict.status == Status.NOT_RUN or counting.empty:
        return verdict
    return replace(verdict, low=float(keys["low"]), high=float(keys["high"]))


def _aligned(heads: pd.DataFrame, n: int) -> Verdict:
    """The part of one model, from the rows of its concentrated heads."""
    means = heads.groupby("branch")["correlation"].mean().dropna()
    if means.empty:
        return Verdict(Status.FLAT, "no head is concentrated in its gate and its losses", n)
    listed = ", ".join(f"{branch} gates {mean:+.2f}" for branch, mean in means.items())
    count = heads.groupby(["layer", "head"]).ngroups
    return Verdict(Status.of((means > 0).all()), f"{listed}; heads: {count}", n)


def _published_effective() -> str:
    found = paper_numbers.by_model("effective_offsets_static_and_per_window")["w8s8-1kv"]
    listed = "; ".join(f"layer {layer}: {static:.1f}, {window:.1f}" for layer, (static, window) in found.items())
    static = [static for static, _ in found.values()]
    return f"{min(static):.1f} to {max(static):.1f} of 8 offsets; w8s8-1kv, static and per window: {listed}"


def _published_peaks() -> str:
    keys = paper_numbers.by_model("key_gate_share_of_uniform")["w8s8-1kv"]
    values = paper_numbers.by_model("value_gate_share_rolled_back_one")["w8s8-1kv"]
    peaks = {layer: (np.argmax(keys[layer]), np.argmax(values[layer])) for layer in keys if layer in values}
    later, listed = sum(key == value for key, value in peaks.values()), _listed(peaks)
    return (
        f"{later} of {len(peaks)} layers; w8s8-1kv, phase of the key gate's peak and of the value gate's rolled back "
        f"by one: {listed}"
    )


def _published_alignment() -> str:
    keys = paper_numbers.by_model("key_gate_share_of_uniform")["w8s8-1kv"]
    losses = paper_numbers.by_model("knockout_percent_by_phase")["w8s8-1kv"]
    peaks = {layer: (np.argmax(keys[layer]), np.argmin(losses[layer])) for layer in keys if layer in losses}
    near = sum(abs(key - loss) <= 1 for key, loss in peaks.values())
    return (
        f"peaks at most 1 apart in {near} of {len(peaks)}; w8s8-1kv, phase of the key gate's peak and of the largest "
        f"loss: {_listed(peaks)}"
    )


def _listed(peaks: dict[str, tuple[np.intp, np.intp]]) -> str:
    return "; ".join(f"layer {layer}: {first}, {second}" for layer, (first, second) in peaks.items())


_SECTION = "Phase specialization: static and input-dependent gates"
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "some-gates-static-most-input-dependent",
        "Some gates static, most not",
        _SECTION,
        "Key gates split: at the end of training at least one scalar gate is static (its average over windows "
        "concentrates on at most half of the window, static effective number at most W/2, and every window alike: per "
        f"window at least {DIAGONAL} of that), while most gates of all models depend on the input (per window below "
        f"{DIAGONAL} of static).",
        _static_and_input_dependent,
        kinds.GATES,
        _published_effective,
    ),
    Claim(
        "value-gates-peak-one-offset-later",
        "Value gates peak one later",
        _SECTION,
        "A specialised head keeps a token together with its successor: of the heads whose scalar key and value gate "
        "are both static (effective number of phases at most S/2), most have the value gate's peak one offset after "
        "the key's (offsets pooled by phase where windows overlap).",
        _value_follows_key,
        kinds.GATES,
        _published_peaks,
    ),
    Claim(
        "gates-line-up-with-losses",
        "Gates line up with losses",
        _SECTION,
        "Static preferences line up with the knockouts: over the heads whose key gate is static (effective number of "
        f"phases at most S/2) and whose knockout costs at least {phase_losses.CONCENTRATED:.0f} % at some phase "
        f"(prefix padding; at least {ENOUGH} such heads with a gate of that branch), the mean rank correlation of "
        "gate preference and loss by phase is positive with its interval (a bootstrap over heads) above 0, for key "
        "gates and for value gates rolled back by one.",
        _lines_up,
        kinds.GATES,
        _published_alignment,
    ),
)
"""In the paper's order."""
