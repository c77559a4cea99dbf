"""The claims about what gates prefer, and how that lines up with knockouts (the paper's Figures 4 and 5)."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from weakspots.analysis import alignment, gate_preferences, phase_losses
from weakspots.analysis.results import Results
from weakspots.claims.counting import by_model, counted, head_name, not_run
from weakspots.claims.verdicts import Claim, Verdict
from weakspots.model_table import ModelRow

_PADDING = "prefix"
_DIAGONAL = 0.8
"""Per-window over static effective number: at least this lies on the diagonal, where every window scores alike."""
_ENOUGH = 3
"""Heads from which on an interval over heads means anything."""
_MISSING = "no gate statistics: run `snakemake gates`"


def _has_scalar_gate(row: ModelRow) -> bool:
    return row.gate_kind == "scalar"


def _part(results: Results, model: str, status: str, value: str) -> Verdict:
    return Verdict(status, value, seeds=str(results.models[model].seed), model=model)


def _missing(results: Results, model: str) -> Verdict:
    return not_run(results, model, None, _MISSING)


def _static_and_input_dependent(results: Results) -> Verdict:
    parts: list[Verdict] = []
    static, dependent, total = {}, {}, 0
    for model, row in results.models.items():
        if not _has_scalar_gate(row):
            continue
        if model not in results.gates:
            parts.append(_missing(results, model))
            continue
        last = gate_preferences.final(results.gates[model])
        keys = last[last["branch"] == "key"].drop_duplicates(["layer", "head"])
        alike = keys["per_window"] >= _DIAGONAL * keys["static"]
        still = keys[alike & (keys["static"] <= row.window / 2)]
        static[model], dependent[model], total = len(still), int((~alike).sum()), total + len(keys)
        named = ", ".join(
            f"{head_name(row, gate.layer, gate.head)} ({gate.static:.1f}, {gate.per_window:.1f})"
            for gate in still.itertuples()
        )
        value = f"{len(still)} of {len(keys)} static{f': {named}' if named else ''}; {dependent[model]} input-dependent"
        parts.append(_part(results, model, "holds" if len(still) and dependent[model] else "fails", value))
    return counted(
        tuple(parts),
        _MISSING,
        lambda: sum(static.values()) >= 1 and sum(dependent.values()) > total / 2,
        lambda: (
            f"of {total} key gates {sum(static.values())} are static and {sum(dependent.values())} input-dependent"
            f"; static{by_model(static) or ': none'}"
        ),
    )


def _value_follows_key(results: Results) -> Verdict:
    parts: list[Verdict] = []
    follow: dict[str, int] = {}
    total = 0
    for model, row in results.models.items():
        if not _has_scalar_gate(row) or row.tied:
            continue
        if model not in results.gates:
            parts.append(_missing(results, model))
            continue
        peaks = _specialised_peaks(results, model)
        if peaks.empty:
            parts.append(_part(results, model, "flat", "no head is specialised in both branches"))
            continue
        follows = peaks["value"] == peaks["key"]
        if row.window == row.stride:  # the last offset has no successor in its window
            follows &= peaks["key"] < row.stride - 1
        follow[model], total = int(follows.sum()), total + len(peaks)
        listed = "; ".join(
            f"{head_name(row, layer, head)} {key} and {(value + 1) % row.stride}"
            for (layer, head), key, value in zip(peaks.index, peaks["key"], peaks["value"], strict=True)
        )
        status = "holds" if follow[model] > len(peaks) / 2 else "fails"
        parts.append(_part(results, model, status, f"{follow[model]} of {len(peaks)}; key and value peak at {listed}"))
    return counted(
        tuple(parts),
        _MISSING,
        lambda: sum(follow.values()) > total / 2,
        lambda: f"one later in {sum(follow.values())} of {total} specialised heads{by_model(follow)}",
    )


def _specialised_peaks(results: Results, model: str) -> pd.DataFrame:
    """The phases that the gates of specialised heads prefer most, by layer and head: columns key and value.

    The value's is rolled back by one. A head is specialised if both its gates are static.
    """
    row = results.models[model]
    profiles = gate_preferences.by_phase(gate_preferences.final(results.gates[model]), row)
    head = ["layer", "head", "branch"]
    peaks = profiles.pivot(index=head, columns="phase", values="preference").idxmax(axis=1).unstack("branch")
    static = profiles.groupby(head)["static"].first().unstack("branch")
    return peaks[(static <= row.stride / 2).all(axis=1)].astype(int)


def _lines_up(results: Results) -> Verdict:
    heads = alignment.concentrated(results, _PADDING)
    parts = tuple(
        _aligned(results, model, heads[heads["model"] == model])
        for model, row in results.models.items()
        if row.gate_kind not in (None, "uniform")
    )
    pooled = alignment.pooled(results, _PADDING)
    keys = pooled.loc["key"]
    counting = pooled[pooled["heads"] >= _ENOUGH]  # tied models have key gates only
    listed = ", ".join(
        f"{branch} gates {found.correlation:+.2f} ({found.low:+.2f} to {found.high:+.2f}, {found.heads:.0f} heads)"
        for branch, found in counting.iterrows()
    )
    too_few = f"{keys['heads']:.0f} heads are concentrated in their key gate and their losses"
    verdict = counted(
        parts,
        "no model with knockouts and gate statistics: run `snakemake knockout gates`",
        lambda: "key" in counting.index and (counting["low"] > 0).all(),
        lambda: f"mean correlation of {listed}" if listed else f"{too_few}: too few",
    )
    interval = {"low": float(keys["low"]), "high": float(keys["high"])}
    return verdict if verdict.status == "not run" or counting.empty else replace(verdict, **interval)


def _aligned(results: Results, model: str, heads: pd.DataFrame) -> Verdict:
    row, run = results.models[model], (model, _PADDING)
    if model not in results.gates or run not in results.knockouts or run not in results.outcomes:
        return not_run(results, model, _PADDING, "no knockouts or no gate statistics")
    about = {"n": len(results.outcomes[run]), "seeds": str(row.seed), "model": model, "padding": _PADDING}
    means = heads.groupby("branch")["correlation"].mean().dropna()
    if means.empty:
        return Verdict("flat", "no head is concentrated in its gate and its losses", **about)
    listed = ", ".join(f"{branch} gates {mean:+.2f}" for branch, mean in means.items())
    count = heads.groupby(["layer", "head"]).ngroups
    return Verdict("holds" if (means > 0).all() else "fails", f"{listed}; heads: {count}", **about)


_SECTION = "Phase specialization: static and input-dependent gates"
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "some-gates-static-most-input-dependent",
        _SECTION,
        "Key gates split: at the end of training at least one scalar gate is static (its average over windows "
        "concentrates on at most half of the window, static effective number at most W/2, and every window alike: per "
        f"window at least {_DIAGONAL} of that), while most gates of all models depend on the input (per window below "
        f"{_DIAGONAL} of static).",
        _static_and_input_dependent,
    ),
    Claim(
        "value-gates-peak-one-offset-later",
        _SECTION,
        "A specialised head keeps a token together with its successor: of the heads whose scalar key and value gate "
        "are both static (effective number of phases at most S/2), most have the value gate's peak one offset after "
        "the key's (offsets pooled by phase where windows overlap).",
        _value_follows_key,
    ),
    Claim(
        "gates-line-up-with-losses",
        _SECTION,
        "Static preferences line up with the knockouts: over the heads whose key gate is static (effective number of "
        f"phases at most S/2) and whose knockout costs at least {phase_losses.CONCENTRATED:.0f} % at some phase "
        f"(prefix padding; at least {_ENOUGH} such heads with a gate of that branch), the mean rank correlation of "
        "gate preference and loss by phase is positive with its interval (a bootstrap over heads) above 0, for key "
        "gates and for value gates rolled back by one.",
        _lines_up,
    ),
)
"""The claims about gates, in the paper's order."""
