"""Putting the page together: one HTML file with its styles, library, data and scripts inside.

The file asks for nothing else: its content security policy forbids every request, so it works from a disk, offline.
"""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

from weakspots.analysis.results import Results
from weakspots.explorer.data import collect
from weakspots.files.atomic import writing
from weakspots.workflow.layout import Layout

LIBRARY = "echarts.min.js"

SCRIPTS = (
    "util.js",
    "controls.js",
    "chart.js",
    "grid.js",
    "measures.js",
    "accuracy.js",
    "knockouts.js",
    "concentration.js",
    "gates.js",
    "cycling.js",
    "window.js",
    "deepseek.js",
    "claims.js",
    "main.js",
)
"""The page's own scripts, in the order in which they are read; they share one scope."""

SLOT = re.compile(r"<!-- (style|library|data|script|scale) -->")


def build(results: Results, layout: Layout, output: str | Path) -> int:
    """Write the page of these results to `output`; returns its size in bytes.

    `layout` is the folder of the results, in which the page is meant to lie: its links go from there.
    """
    text = page(collect(results, layout))
    with writing(output) as path:
        path.write_text(text, encoding="utf-8")
    return len(text.encode())


def page(data: dict) -> str:
    """The whole page around `data.collect`'s data."""
    scripts = "\n".join(_read("page", name) for name in SCRIPTS)
    library = resources.files("weakspots").joinpath("resources", LIBRARY).read_text(encoding="utf-8")
    parts = {
        "style": f"<style>\n{_read('page', 'style.css')}</style>",
        # Classic scripts: modules cannot be loaded from file://, and an inline one runs only after the whole page.
        "library": f"<script>\n{_script(library)}</script>",
        "data": f'<script type="application/json" id="data">{embedded(data)}</script>',
        "script": f'<script>\n"use strict";\n(() => {{\n{_script(scripts)}\n}})();\n</script>',
        "scale": re.sub(r"[^\w.-]", "_", str(data["scale"])),
    }
    return SLOT.sub(lambda slot: parts[slot[1]], _read("page", "page.html"))


def embedded(data: dict) -> str:
    """JSON that may stand in a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _script(text: str) -> str:
    """The text of a script; raises ValueError if it would end its element early."""
    if "</script" in text.lower():
        raise ValueError("a script holds </script, which would end its element: write it in two parts")
    return text


def _read(*parts: str) -> str:
    return resources.files("weakspots.explorer").joinpath(*parts).read_text(encoding="utf-8")
