"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import pandas as pd

_MISSING = "–"


def table(
    header: Sequence[str], rows: Iterable[Sequence], right: Container[int] = (), equal_widths: bool = False
) -> list[str]:
    """The lines of a table: its header, a rule, and one for each row; a missing cell is a dash.

    The columns whose numbers are in `right` are aligned to the right. With `equal_widths` the source is aligned as
    well, so that it reads as a table before it is rendered.
    """
    cells = [[_text(cell) for cell in row] for row in (header, *rows)]
    marks = [":" if column in right else "" for column in range(len(header))]
    widths = [3] * len(header)
    if equal_widths:
        cells = padded(cells, right)
        widths = [len(cell) - len(mark) for cell, mark in zip(cells[0], marks, strict=True)]
    rule = ["-" * width + mark for width, mark in zip(widths, marks, strict=True)]
    return ["| " + " | ".join(line) + " |" for line in (cells[0], rule, *cells[1:])]


def padded(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> list[list[str]]:
    """The rows with every cell as wide as its column; blanks go before the text in the columns of `right`."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]


def _text(cell: object) -> str:
    return _MISSING if pd.isna(cell) else str(cell).replace("|", r"\|")
