"""Figure 1a: needle accuracy by residue, of DeepSeek's models, and of their stand-ins by themselves."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from weakspots import statistics
from weakspots.analysis import paper_numbers
from weakspots.analysis.results import Results
from weakspots.figures import figure_1_models as models
from weakspots.figures import panels


def measure(results: Results) -> pd.DataFrame:
    """One row per model, source and residue, in the table's order.

    Columns model, label, stand_in, stride (0: no compression), source ("paper" or "here"), confidence, residue,
    accuracy, low, high (percent, Wilson's interval), n (prompts). A model that was not run has one row "here" without
    residue, accuracy and n.
    """
    parts = []
    for model, row in results.deepseek.items():
        counts = {}
        if row.stand_in is None and (theirs := paper_numbers.needle(model)) is not None:
            counts[models.PAPER] = theirs
        if model in results.needles:
            outcomes = results.needles[model]
            counts[models.HERE] = outcomes.sum(axis=0), len(outcomes)
        confidence = results.statistics.confidence
        for source in (models.PAPER, models.HERE):
            origin = {**models.about(results, model), "source": source, "confidence": confidence}
            if source in counts:
                correct, n = counts[source]
                low, high = statistics.wilson(correct, n, confidence)
                measured = {"accuracy": 100 * correct / n, "low": low, "high": high, "n": n}
                parts.append(pd.DataFrame({**origin, "residue": range(len(correct)), **measured}))
            elif source == models.HERE:
                parts.append(pd.DataFrame([{**origin, "residue": pd.NA}]))
    table = pd.concat(parts, ignore_index=True).astype({"residue": "Int64", "n": "Int64"})
    return table[[*_COLUMNS]]


_COLUMNS = (
    "model", "label", "stand_in", "stride", "source", "confidence", "residue", "accuracy", "low", "high", "n"
)  # fmt: skip
_ACROSS, _LEFT, _PITCH, _WIDTH, _PANEL, _ROW = 3, 0.48, 2.24, 2.0, 0.92, 1.56  # inches
_ABOVE, _TITLE, _STAND_IN, _LABELS = 1.02, 0.38, 1.5, 0.2


def height(table: pd.DataFrame) -> float:
    """Inches that the part takes."""
    theirs = table[~table["stand_in"].astype(bool)]["model"].nunique()
    rows = -(-theirs // _ACROSS)
    return _ABOVE - 0.1 + rows * _ROW + _LABELS * bool(rows) + (_STAND_IN if table["stand_in"].any() else -_TITLE)


def draw(figure: Figure, table: pd.DataFrame, top: float) -> None:
    """A panel per model of DeepSeek's, and below them one of the stand-ins with their control."""
    confidence = table["confidence"].iloc[0]
    models.section(
        figure, top, "a", "Needle: accuracy by residue of the target key's position",
        f"Bands: {confidence:.0%} Wilson intervals. n: prompts per residue. Dashed verticals: borders of the stride's "
        "periods.",
    )  # fmt: skip
    lines = [
        Line2D([], [], color="0.2", linewidth=1.5, marker="o", markersize=3),
        Line2D([], [], color="0.2", linewidth=0.9, linestyle=models.PUBLISHED_LINE),
    ]
    figure.legend(
        lines, ["measured here", paper_numbers.CAPTION_DEEPSEEK], loc="upper left", ncol=2, frameon=False, fontsize=8,
        bbox_to_anchor=(0.2 / panels.WIDTH, 1 - (top + 0.34) / figure.get_figheight()),
    )  # fmt: skip
    stand_ins, theirs = table[table["stand_in"].astype(bool)], table[~table["stand_in"].astype(bool)]
    colours = models.colours(theirs["model"].unique())
    for number, (model, colour) in enumerate(colours.items()):
        row, column = divmod(number, _ACROSS)
        axes = panels.inches(figure, _LEFT + column * _PITCH, top + _ABOVE + row * _ROW, _WIDTH, _PANEL)
        _draw_model(axes, theirs[theirs["model"] == model], colour)
        if column == 0:
            axes.set_ylabel("accuracy (%)", fontsize=7.5, labelpad=2)
        if number + _ACROSS >= len(colours):
            axes.set_xlabel(str(axes.get_label()), fontsize=7.5, labelpad=1.5)
    if len(stand_ins):
        rows = -(-len(colours) // _ACROSS)
        _draw_stand_ins(figure, stand_ins, top + _ABOVE + rows * _ROW + _LABELS * bool(rows))


def _draw_model(axes: Axes, run: pd.DataFrame, colour: str) -> None:
    """One of DeepSeek's models: the published curve, the one that was measured, or what is missing."""
    stride = int(run["stride"].iloc[0])
    paper, here = (_of(run, source) for source in (models.PAPER, models.HERE))
    counts = [
        f"{name} n = {int(rows['n'].iloc[0]):,}" for name, rows in (("paper", paper), ("here", here)) if len(rows)
    ]
    details = [f"S = {stride}" if stride else "no compression", *counts]
    _title(axes, run["label"].iloc[0], " · ".join(details))
    modulus = len(here) or len(paper) or 8
    _frame(axes, modulus, stride)
    if len(paper) == modulus:
        axes.fill_between(paper["residue"], paper["low"], paper["high"], color=colour, alpha=0.12, linewidth=0)
        axes.plot(paper["residue"], paper["accuracy"], color=colour, linewidth=0.9, linestyle=models.PUBLISHED_LINE)
    if here.empty:
        models.say(axes, f"not published, {models.NOT_RUN}" if paper.empty else models.NOT_RUN)
    else:
        _curve(axes, here, colour, stride or modulus)


def _title(axes: Axes, name: str, details: str) -> None:
    """Above a panel, flush left: the model's name, and in a line below it its details."""
    axes.set_title(details, loc="left", fontsize=7, fontweight="normal", pad=3)
    axes.annotate(
        name, (0, 1), (0, 14), xycoords="axes fraction", textcoords="offset points", fontsize=8.5, fontweight="bold",
        annotation_clip=False,
    )  # fmt: skip


def _draw_stand_ins(figure: Figure, table: pd.DataFrame, top: float) -> None:
    """All stand-ins and their controls in one panel, which says that they are nobody else's numbers."""
    run = {model: _of(rows, models.HERE) for model, rows in table.groupby("model", sort=False)}
    modulus = max(map(len, run.values())) or 8
    axes = panels.inches(figure, _LEFT, top, 2 * _WIDTH, _PANEL)
    _title(axes, models.STAND_IN, "no number here is DeepSeek's")
    axes.set_ylabel("accuracy (%)", fontsize=7.5, labelpad=2)
    axes.set_xlabel(f"position mod {modulus}", fontsize=7.5, labelpad=1.5)
    compressed = list(table.loc[table["stride"] > 0, "model"].unique())
    colours = models.colours(compressed, stand_ins=True)
    _frame(axes, modulus, int(table["stride"].max()))
    entries, names = [], []
    for model, rows in run.items():
        stride = int(table.loc[table["model"] == model, "stride"].iloc[0])
        colour = colours.get(model, models.GREY)
        what = f"stand-in, S = {stride}" if stride else "stand-in without compression (control)"
        if rows.empty:
            names.append(f"{what}: {models.NOT_RUN}")
            entries.append(Line2D([], [], color=colour, linestyle=""))
            continue
        _curve(axes, rows, colour, stride or modulus)
        names.append(f"{what}\nhere n = {int(rows['n'].iloc[0]):,}")
        entries.append(Line2D([], [], color=colour, linewidth=1.5, marker="o", markersize=3))
    if all(rows.empty for rows in run.values()):
        models.say(axes, models.NOT_RUN)
    axes.legend(entries, names, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=7.5)


def _of(run: pd.DataFrame, source: str) -> pd.DataFrame:
    """The rows of one source that hold a measurement, by residue."""
    rows = run[(run["source"] == source) & run["accuracy"].notna()]
    return rows.sort_values("residue").astype({"residue": int})


def _frame(axes: Axes, modulus: int, stride: int) -> None:
    for border in range(stride, modulus, stride) if stride else ():
        axes.axvline(border - 0.5, color="0.8", linestyle="--", linewidth=0.7, zorder=0)
    axes.set(xlim=(-0.4, modulus - 0.6), ylim=(-3, 103))
    axes.set_xticks(range(0, modulus, panels.every(modulus, 8)))
    axes.set_yticks([0, 50, 100])
    axes.set_label(f"position mod {modulus}")  # shown below the lowest panels only
    axes.tick_params(length=2, width=0.6, pad=1.5, labelsize=7)


def _curve(axes: Axes, rows: pd.DataFrame, colour: str, period: int) -> None:
    """A measured curve: solid within a period, dotted where the line crosses from one to the next."""
    residue, accuracy = rows["residue"].to_numpy(), rows["accuracy"].to_numpy(float)
    axes.fill_between(
        residue, rows["low"].astype(float), rows["high"].astype(float), color=colour, alpha=0.25, linewidth=0
    )
    for start in range(0, len(residue), period):
        within, across = slice(start, start + period), slice(start - 1, start + 1)
        axes.plot(residue[within], accuracy[within], color=colour, linewidth=1.5, marker="o", markersize=2.4)
        if start:
            axes.plot(residue[across], accuracy[across], color=colour, linewidth=1, linestyle=":")
