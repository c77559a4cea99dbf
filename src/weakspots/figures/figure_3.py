"""Figure 3: knockout maps, the accuracy that is lost at each phase when one KV head is knocked out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from weakspots import statistics
from weakspots.analysis import phase_losses
from weakspots.analysis.results import Results
from weakspots.config import PADDINGS
from weakspots.errors import UserError
from weakspots.figures import panels, style
from weakspots.model_table import WHOLE_LAYER


def measure(results: Results) -> pd.DataFrame:
    """One row per run, KV head and phase, and one per position, in the model table's order.

    Columns model, label, kv_heads, stride (0: full attention), padding, layer, head, period (that of the phases: the
    stride, or the lookup's modulus where positions are not folded), folded, phase, clean, knocked (accuracies in
    percent), change (percent of the clean accuracy; missing where that is 0), judged (whether the clean accuracy
    reaches `phase_losses.RETRIEVABLE`), n (prompts per phase).
    """
    parts = []
    for model, padding in knocked_out(results):
        row, clean = results.models[model], results.outcomes[model, padding]
        modulus = clean.shape[1]
        heads = sorted(head for head in results.knockouts[model, padding] if head[1] != WHOLE_LAYER)
        before = statistics.profile(clean)
        after = np.stack([statistics.profile(results.knockouts[model, padding][head]) for head in heads])
        folded = phase_losses.period_of(row, modulus)
        for is_folded, period in ((True, folded), (False, modulus)):
            about = {
                "model": model,
                "label": results.label(model),
                "kv_heads": row.kv_heads,
                "stride": row.period or 0,
                "padding": padding,
                "layer": np.repeat([layer for layer, _ in heads], period),
                "head": np.repeat([head for _, head in heads], period),
                "period": period,
                "folded": is_folded,
            }
            measured = {
                "phase": np.tile(np.arange(period), len(heads)),
                "clean": np.tile(statistics.fold(before, period), len(heads)),
                "knocked": statistics.fold(after, period).ravel(),
                "change": phase_losses.change(before, after, period).ravel(),
                "judged": np.tile(phase_losses.retrievable(before, period), len(heads)),
                "n": len(clean) * modulus // period,
            }
            parts.append(pd.DataFrame(about | measured))
    return pd.concat(parts, ignore_index=True)


def knocked_out(results: Results) -> list[tuple[str, str]]:
    """Model and padding of every run with knockouts, in the model table's order.

    Raises UserError if there are none.
    """
    found = [(model, padding) for model in results.models for padding in PADDINGS]
    found = [run for run in found if run in results.knockouts and run in results.outcomes]
    if not found:
        raise UserError(f"the scale {results.scale} has no knockouts yet: run `snakemake knockout` first")
    return found


def draw(
    table: pd.DataFrame,
    models: Sequence[str] | None = None,
    folded: bool = True,
    padding: str | None = None,
) -> Figure:
    """Maps of `measure`'s table, a row per KV head, for all models (or `models` in that order).

    Columns are phases, or all positions unless `folded`. With a `padding` only its maps are drawn, else both side by
    side.
    """
    style.use_theme()
    shown = list(table["model"].unique() if models is None else models)
    table = table[table["model"].isin(shown) & (table["folded"] == folded)]
    paddings = [p for p in PADDINGS if p in set(table["padding"]) and padding in (None, p)]
    table = table[table["padding"].isin(paddings)]
    across = min(len(shown), (3 if folded else 2) * (3 - len(paddings)))
    blocks = {model: _Block(table[table["model"] == model], panels.WIDTH / across) for model in shown}
    places, height = panels.packed({model: block.height for model, block in blocks.items()}, across, _TOP)
    figure = panels.sheet(height)
    _add_heading(figure, table, folded)
    for model, (left, top) in places.items():
        _draw_model(figure, blocks[model], paddings, left, top)
    return figure


_TOP, _BELOW, _LEFT, _GAP = 1.02, 0.46, 0.36, 0.14  # inches: heading, below a map, left of it, between two


_PADDINGS = {padding: name.removesuffix(" padding") for padding, name in style.PADDING_NAMES.items()}


class _Block:
    """The maps of one model and how much room they take, in inches."""

    def __init__(self, run: pd.DataFrame, width: float):
        self.run, self.width = run, width
        self.name = panels.wrapped(run["label"].iloc[0], width - _LEFT - _GAP)
        self.above = panels.LINE * (1 + self.name.count("\n")) + 0.17
        self.map = panels.map_height(len(run[["layer", "head"]].drop_duplicates()))
        self.height = self.above + self.map + _BELOW


def _draw_model(figure: Figure, block: _Block, paddings: list[str], left: float, top: float) -> None:
    """One model's maps under its name, one per padding; a padding without results is undefined throughout."""
    run, width = block.run, block.width - _LEFT - _GAP
    folded, period, stride = bool(run["folded"].iloc[0]), int(run["period"].iloc[0]), int(run["stride"].iloc[0])
    panels.name_run(figure, block.name, left + _LEFT + width / 2, top + block.above - 0.15)
    every = pd.MultiIndex.from_product([paddings, range(period)])
    cells = run.pivot(index=["layer", "head"], columns=["padding", "phase"], values=["change", "judged"])
    shape = len(cells), len(paddings), period
    values = cells["change"].reindex(columns=every).to_numpy(float).reshape(shape)
    # what has not been run is undefined, and not hatched
    judged = cells["judged"].reindex(columns=every, fill_value=True).to_numpy(bool).reshape(shape)
    axes = panels.inches(figure, left + _LEFT, top + block.above, width, block.map)
    maps = [
        panels.Map(
            values[:, number], panels.CHANGE, _PADDINGS[padding], style.PADDING_COLOURS[padding], judged[:, number]
        )
        for number, padding in enumerate(paddings)
    ]
    layers = run[["layer", "head"]].drop_duplicates().sort_values(["layer", "head"])["layer"].to_list()
    panels.draw_maps(axes, maps, layers, period=0 if folded else stride)
    axes.set_xlabel(f"position mod {period}", fontsize=7.5, labelpad=1.5)
    axes.set_ylabel("layer", fontsize=7.5, labelpad=2)


def _add_heading(figure: Figure, table: pd.DataFrame, folded: bool) -> None:
    """Title, the number of prompts, and what the colours mean."""
    once = f"folded to one stride (mod {phase_losses.FULL_ATTENTION_PERIOD} for full attention)"
    panels.heading(
        figure,
        "Accuracy lost when one KV head is knocked out, by target-key " + ("phase" if folded else "position"),
        "Each row is one KV head, a layer's heads together; each column is a position of the target key,",
        f"{once if folded else 'dashed lines are period borders'}. n = {panels.counted(table['n'])} prompts per cell.",
    )
    panels.colour_bar(figure, panels.CHANGE, (panels.WIDTH / 2 - 2.0, 0.74))
    panels.not_judged(figure, panels.WIDTH / 2 + 0.3, 0.76)
