"""The claim about the layer knockouts of DeepSeek's models (the last map of the paper's Figure 3)."""

from __future__ import annotations

import numpy as np

from weakspots import statistics
from weakspots.analysis import paper_numbers, phase_losses
from weakspots.analysis.results import Results
from weakspots.claims import kinds
from weakspots.claims.deepseek.stand_ins import models, periodicity, together
from weakspots.claims.verdicts import Claim, Verdict, most_hold
from weakspots.config.deepseek import DeepseekModel
from weakspots.files.statuses import Status
from weakspots.model_table import CLEAN

UNEVEN = 20
"""Points, in percent of the clean accuracy: how far a layer's losses must lie apart to depend on the residue."""


def _layers(results: Results, model: str) -> Verdict:
    """Which layers' losses depend on the residue, and whether these repeat with the stride."""
    outcomes, stride = results.layer_knockouts[model], results.deepseek[model].stride
    clean, settings = outcomes[CLEAN], results.statistics
    n, modulus = clean.shape
    if stride not in statistics.candidate_periods(modulus):
        return Verdict(Status.NOT_RUN, f"modulus {modulus} does not show the period {stride} twice")
    layers = [layer for layer in sorted(outcomes) if layer != CLEAN]
    spreads = phase_losses.dispersions(clean, np.stack([outcomes[layer] for layer in layers]), modulus, settings)
    periods = {}
    for layer, loss in zip(layers, spreads, strict=True):
        found = periodicity(results, clean.astype(float) - outcomes[layer])
        if loss.spread >= UNEVEN and not found.flat:
            periods[layer] = found.period
    if not periods:
        return Verdict(Status.FLAT, f"no knockout of {len(layers)} layers costs some residues more than others", n)
    listed = "; ".join(f"layer {layer}: {period or 'no period'}" for layer, period in periods.items())
    same = sum(period == stride for period in periods.values())
    holds = same > len(periods) / 2 and set(periods.values()) <= {stride, None}
    value = f"{same} of {len(periods)} uneven layers of {len(layers)} repeat every {stride}: {listed}"
    widest = spreads[max(range(len(layers)), key=lambda place: np.nan_to_num(spreads[place].spread))]
    return Verdict(Status.of(holds), value, n, low=widest.low, high=widest.high)


def _layer_losses_repeat(results: Results) -> Verdict:
    def chosen(model: str, row: DeepseekModel) -> bool:
        asked = (
            row.stand_in is not None or model in results.layer_knockouts or bool(paper_numbers.layer_knockout(model))
        )
        return bool(row.stride) and asked

    asked = models(results, kinds.LAYER_KNOCKOUT, chosen, _layers, _published_layers)
    return together(results, asked, "models lose with their stride", most_hold)


def _published_layers(model: str) -> str:
    found = paper_numbers.layer_knockout(model)
    return f"layers {', '.join(map(str, found))}, with period four" if found else ""


def _published() -> str:
    lost = {layer: int(change.argmin()) for layer, change in paper_numbers.layer_knockout("flash-base").items()}
    parts = [f"layer {layer}: residues {worst % 4} and {worst % 4 + 4}" for layer, worst in lost.items()]
    return f"{len(lost)} layers, period four; flash-base, where most is lost: {'; '.join(parts)}"


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "layer-losses-repeat-with-the-stride",
        "Layer losses repeat",
        "Phase specialization: knockouts",
        "Losses of layer knockouts repeat with the stride: of the layers whose losses lie at least "
        f"{UNEVEN} % of the clean accuracy apart (residues with a clean accuracy of at least "
        f"{phase_losses.RETRIEVABLE:.0f} %) and differ by residue beyond the noise, most have the stride as their "
        "dominant period, and none another one, in most models.",
        _layer_losses_repeat,
        kinds.LAYER_KNOCKOUT,
        _published,
    ),
)
"""The claim about layer knockouts."""
