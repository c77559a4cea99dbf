"""The report as one page that needs no other file and no network."""

from __future__ import annotations

import base64
from html import escape
from io import BytesIO

import matplotlib.pyplot as plt

from weakspots.audit.figure import draw
from weakspots.audit.report import UNSUITABLE, LengthReport, Report, limit_sentence, tail_sentence

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
.verdict { font-size: 1.15rem; padding: .8rem 1rem; background: #f1f4f8; border-left: 4px solid #0173b2 }
table { border-collapse: collapse; margin: .6rem 0 } td, th { padding: .15rem .7rem; text-align: right }
th { border-bottom: 1px solid #999; font-weight: 600 } img { max-width: 100% } .note { color: #555 }
"""


def page(report: Report) -> str:
    """HTML with the figure inside."""
    picture, figure = BytesIO(), draw(report)
    figure.savefig(picture, format="png", dpi=140)
    plt.close(figure)
    image = base64.b64encode(picture.getvalue()).decode()
    verdict = "<br>".join(map(escape, [*report.verdict.splitlines(), *limit_sentence(report).splitlines()]))
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>Audit of {escape(report.model)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>Periodic weak spots: {escape(report.model)}</h1><p class='verdict'>{verdict}</p>",
        f"<img alt='accuracy by phase' src='data:image/png;base64,{image}'>",
        *map(_length, report.lengths),
        f"<h2>Plan</h2><p class='note'>{escape(report.plan)}</p></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _length(length: LengthReport) -> str:
    parts = [f"<h2>{escape(str(length.setting))}</h2>"]
    if length.tried:
        tried = [[str(setting), f"{100 * accuracy:.0f} %"] for setting, accuracy in length.tried]
        parts += ["<p>Settings tried for their difficulty:</p>", _table(["setting", "right"], tried)]
    if not length.suitable:
        parts.append(f"<p>{escape(UNSUITABLE)}</p>")
    parts.append(
        f"<p>{length.prompts} of {length.prompts_planned} prompts, {length.mappings} mappings, {length.tokens:,} "
        f"tokens; periods {', '.join(map(str, length.periods))}.</p>"
    )
    if length.attribution:
        parts.append(f"<p class='verdict'>{escape(length.attribution)}</p>")
    for judged in length.judged:
        parts += [f"<h3>{escape(judged.name)}</h3><p>{escape(judged.verdict)} {escape(tail_sentence(judged))}</p>"]
        parts.append(f"<p>mean {judged.accuracy:.1f} %, worst phase {judged.worst:.1f} %</p>")
        for finding in judged.findings:
            rows = [
                [one.phase, f"{one.accuracy:.1f}", f"{one.low:.1f} to {one.high:.1f}", one.prompts]
                for one in finding.by_phase
            ]
            parts.append(
                f"<p>{finding.kind} phase modulo {finding.period}: p = {finding.p_value:.2g}, gap {finding.gap:.1f} "
                f"points, between {finding.gap_low:.1f} and {finding.gap_high:.1f}; explains "
                f"{100 * finding.effect_size:.1f} % of the variance within mappings</p>"
            )
            parts.append(_table(["phase", "right (%)", "interval", "prompts"], rows))
    rows = [[one["phase"], f"{one['mean']:.2f}", f"{one['deviation']:.2f}"] for one in length.moments]
    exact = "exactly matched" if length.exact_moments else "nearly matched"
    parts.append(f"<p>Where the targets stood ({exact} over phases):</p>")
    parts.append(_table(["phase", "mean position", "deviation"], rows))
    return "\n".join(parts)


def _table(head: list[str], rows: list[list]) -> str:
    shown = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{shown}</table>"
