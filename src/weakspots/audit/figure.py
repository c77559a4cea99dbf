"""Accuracy by phase as a figure."""

from __future__ import annotations

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from weakspots.audit.decide import PHASE_KINDS
from weakspots.audit.report import Report
from weakspots.figures.style import use_theme

_TITLES = {"needle": "target's position", "tail": "prompt's length"}


def draw(report: Report) -> Figure:
    """One row per length, one column per kind of phase, one colour per backend; bars are confidence intervals."""
    use_theme()
    colours = sns.color_palette("colorblind")
    figure, axes = plt.subplots(
        len(report.lengths), len(PHASE_KINDS), figsize=(8, 0.6 + 2.4 * len(report.lengths)), squeeze=False, sharey=True
    )
    for row, length in zip(axes, report.lengths, strict=True):
        for axis, kind in zip(row, PHASE_KINDS, strict=True):
            several = len(length.judged) > 1
            for number, judged in enumerate(length.judged):
                finding = judged.of(kind)
                shift = 0.15 * (number - (len(length.judged) - 1) / 2)
                places = [one.phase + shift for one in finding.by_phase]
                seen = [one.accuracy for one in finding.by_phase]
                bars = [
                    [max(0.0, one.accuracy - one.low) for one in finding.by_phase],
                    [max(0.0, one.high - one.accuracy) for one in finding.by_phase],
                ]
                label = f"{judged.name.split(' [')[0]}, modulo {finding.period}" if several else None
                axis.errorbar(places, seen, bars, fmt="o-", ms=4, lw=1, capsize=2, color=colours[number], label=label)
            finding = length.judged[0].of(kind)
            axis.set(xlabel=f"{_TITLES[kind]} modulo {finding.period}", ylim=(-3, 103))
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            if several:
                axis.legend(frameon=False, fontsize=7)
        row[0].set_ylabel(f"right answers (%)\n{length.setting.length} tokens")
    figure.tight_layout()
    return figure
