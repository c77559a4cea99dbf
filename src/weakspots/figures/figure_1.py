"""Figure 1: the weak spots of DeepSeek's models, published and measured here, and those of tiny stand-ins.

Stand-ins say what the architecture does by itself; they have panels of their own, and none of their numbers stand under
the name of a model of DeepSeek's. A model that was not run is shown with the published numbers alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from weakspots.analysis.results import Results
from weakspots.errors import UserError
from weakspots.figures import figure_1_completion, figure_1_layers, figure_1_needle, panels, style


@dataclass(frozen=True)
class Tables:
    """What the figure is drawn from: the tables of its parts, each described where it is measured."""

    needle: pd.DataFrame
    completion: pd.DataFrame
    rankings: pd.DataFrame
    layers: pd.DataFrame
    confidence: float


def measure(results: Results) -> Tables:
    """The tables of all parts. Raises UserError where the configuration names no model of DeepSeek's or stand-in."""
    if not results.deepseek:
        raise UserError(f"the scale {results.scale} has no deepseek.models: add the rows that are to be shown")
    return Tables(
        figure_1_needle.measure(results),
        figure_1_completion.measure(results),
        figure_1_completion.count(results),
        figure_1_layers.measure(results),
        results.statistics.confidence,
    )


_TOP, _BETWEEN = 0.58, 0.14  # inches


def draw(tables: Tables) -> Figure:
    """The three parts one below the other: needle, code completion, layer knockouts."""
    style.use_theme()
    parts = [
        (figure_1_needle.height(tables.needle), lambda figure, top: figure_1_needle.draw(figure, tables.needle, top)),
        (
            figure_1_completion.height(tables.completion, tables.rankings),
            lambda figure, top: figure_1_completion.draw(
                figure, tables.completion, tables.rankings, top, tables.confidence
            ),
        ),
        (figure_1_layers.height(tables.layers), lambda figure, top: figure_1_layers.draw(figure, tables.layers, top)),
    ]
    figure = panels.sheet(_TOP + sum(height + _BETWEEN for height, _ in parts))
    panels.heading(
        figure,
        "Periodic weak spots of DeepSeek's models",
        "What the paper publishes beside what was measured here; a model that was not run is shown as published.",
    )
    top = _TOP
    for height, draw_part in parts:
        draw_part(figure, top)
        top += height + _BETWEEN
    return figure
