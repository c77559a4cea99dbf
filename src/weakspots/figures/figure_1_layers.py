"""Figure 1c: the layer-knockout map, what is lost at each residue when a whole layer's attention output is replaced."""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from weakspots import statistics
from weakspots.analysis import paper_numbers, phase_losses
from weakspots.analysis.results import Results
from weakspots.errors import UserError
from weakspots.figures import figure_1_models as models
from weakspots.figures import panels
from weakspots.model_table import CLEAN


def measure(results: Results) -> pd.DataFrame:
    """One row per model, source, layer and residue.

    Columns model, label, stand_in, stride (0: no compression), source ("paper" or "here"), layer, residue, clean,
    knocked (accuracies in percent, missing where only published), change (percent of the clean accuracy; missing where
    that is 0), n (prompts per residue, missing where only published).
    Raises UserError if a table lacks the model as it is.
    """
    parts = []
    for model, row in results.deepseek.items():
        origin = models.about(results, model)
        theirs = paper_numbers.layer_knockout(model) if row.stand_in is None else {}
        for layer, change in theirs.items():
            values = {"layer": layer, "residue": range(len(change)), "change": change}
            parts.append(pd.DataFrame({**origin, "source": models.PAPER, **values}))
        outcomes = results.layer_knockouts.get(model, {})
        if outcomes and CLEAN not in outcomes:
            raise UserError(f"the layer knockouts of {model} lack the model as it is (layer {CLEAN}): run them again")
        for layer in sorted(set(outcomes) - {CLEAN}):
            clean, knocked = (statistics.profile(outcomes[number]) for number in (CLEAN, layer))
            values = {
                "layer": layer,
                "residue": range(len(clean)),
                "clean": clean,
                "knocked": knocked,
                "change": phase_losses.change(clean, knocked, len(clean)),
                "n": len(outcomes[CLEAN]),
            }
            parts.append(pd.DataFrame({**origin, "source": models.HERE, **values}))
    order = ["model", "label", "stand_in", "stride", "source", "layer", "residue", "clean", "knocked", "change", "n"]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=order)
    return table.reindex(columns=order).astype({"n": "Int64"})


_ABOVE, _LEFT, _GAP, _BELOW, _ACROSS = 0.72, 0.38, 0.16, 0.4, 4  # inches, and blocks side by side


class _Block:
    """One map and how much room it takes; `run` is empty for a model that was published and not run."""

    def __init__(self, run: pd.DataFrame, label: str, source: str, width: float):
        self.run, self.width = run, width
        layers = run["layer"].drop_duplicates().to_list()
        self.name = "\n".join(textwrap.wrap(label, 22, break_on_hyphens=False))
        if run.empty:
            self.detail = f"here: {models.NOT_RUN}"
        elif source == models.PAPER:
            self.detail = f"paper, layers {', '.join(map(str, layers))}"
        else:
            self.detail = f"here, n = {int(run['n'].iloc[0]):,}"
        self.lines = 1 + self.name.count("\n")
        self.map = panels.map_height(len(layers), lowest=0.55)


def _blocks(table: pd.DataFrame) -> dict[str, _Block]:
    """Published maps, then for each of these models what was measured, or that it was not; stand-ins last."""
    width, found = panels.WIDTH / _ACROSS, {}
    ordered = table.sort_values("stand_in", kind="stable")  # overlays of the configuration may put them first
    for model, rows in ordered.groupby("model", sort=False):
        label = rows["label"].iloc[0]
        for source in (models.PAPER, models.HERE):
            run = rows[rows["source"] == source]
            if len(run) or (source == models.HERE):
                found[f"{model} {source}"] = _Block(run, label, source, width)
    return found


def _placed(blocks: dict[str, _Block], top: float) -> tuple[dict[str, tuple[float, float]], float]:
    """Left and top of the maps, those side by side at one height, and the end of the lowest."""
    names, end = list(blocks), top
    places: dict[str, tuple[float, float]] = {}
    for start in range(0, len(names), _ACROSS):
        row = {name: blocks[name] for name in names[start : start + _ACROSS]}
        maps = end + panels.LINE * max(block.lines for block in row.values()) + 0.2
        places |= {name: (number * panels.WIDTH / _ACROSS + _LEFT, maps) for number, name in enumerate(row)}
        end = maps + max(block.map for block in row.values()) + _BELOW
    return places, end


def height(table: pd.DataFrame) -> float:
    """Inches that the part takes."""
    return _placed(_blocks(table), _ABOVE)[1]


def draw(figure: Figure, table: pd.DataFrame, top: float) -> None:
    """A map per model and source: a row per layer, a column per residue."""
    models.section(
        figure, top, "c", "Layer knockouts: change of accuracy by residue of the target key's position",
        "A whole layer's attention output at the query tokens",
        "is replaced by its mean. n: prompts per cell.",
    )  # fmt: skip
    panels.colour_bar(figure, panels.CHANGE, (4.6, top + 0.4))
    blocks = _blocks(table)
    for name, (left, above) in _placed(blocks, top + _ABOVE)[0].items():
        _draw_block(figure, blocks[name], left, above)


def _draw_block(figure: Figure, block: _Block, left: float, top: float) -> None:
    """One map with the model's name and its details above it; `top` is the map's."""
    run, width = block.run, block.width - _LEFT - _GAP
    middle = left + width / 2
    panels.write(figure, middle, top - 0.19, block.name, ha="center", va="bottom", fontsize=8, fontweight="bold",
                 linespacing=1.2)  # fmt: skip
    panels.write(figure, middle, top - 0.04, block.detail, ha="center", va="bottom", fontsize=7.5)
    axes = panels.inches(figure, left, top, width, block.map)
    if run.empty:
        axes.set(xticks=[], yticks=[], facecolor="0.96")
        axes.spines[:].set_visible(False)
        models.say(axes, models.NOT_RUN, (0.5, 0.5), "center", "center")
        return
    values = run.pivot(index="layer", columns="residue", values="change").sort_index()
    modulus, stride = values.shape[1], int(run["stride"].iloc[0])
    panels.draw_maps(axes, [panels.Map(values.to_numpy(float), panels.CHANGE, "")], values.index.to_list())
    borders = np.arange(stride, modulus, stride) - 0.5 if stride else np.array([])
    axes.vlines(borders, -0.5, len(values) - 0.5, color="0.4", linestyle=(0, (3, 2)), linewidth=0.6)
    axes.set_xlabel(f"position mod {modulus}", fontsize=7.5, labelpad=1.5)
    axes.set_ylabel("layer", fontsize=7.5, labelpad=2)
