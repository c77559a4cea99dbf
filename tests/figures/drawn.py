"""What a drawn figure says, for tests of figures."""

from __future__ import annotations

from itertools import combinations

from matplotlib.figure import Figure
from matplotlib.text import Text


def texts(figure: Figure) -> list[Text]:
    """Every visible text of a figure that is not empty."""
    figure.canvas.draw()
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


def said(figure: Figure) -> str:
    """All that a figure says."""
    return "\n".join(text.get_text() for text in texts(figure))


def overlapping(figure: Figure, pixels: float = 1.0) -> list[tuple[str, str]]:
    """Pairs of texts that overlap by more than so many pixels, both ways."""
    # of an annotation the text alone, without its arrow
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in texts(figure) if _shown(text)]
    return [
        (one, other)
        for (one, a), (other, b) in combinations(boxes, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > pixels and min(a.y1, b.y1) - max(a.y0, b.y0) > pixels
    ]


def _shown(text: Text) -> bool:
    """Ticks outside an axis' limits exist and are not drawn."""
    axes = text.axes
    if axes is None or text not in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        return True
    if text in axes.get_xticklabels():
        return min(axes.get_xlim()) <= text.get_position()[0] <= max(axes.get_xlim())
    return min(axes.get_ylim()) <= text.get_position()[1] <= max(axes.get_ylim())
