"""Whether the texts of a figure can be read: shared by the tests of all plots."""

from __future__ import annotations

from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.text import Text

matplotlib.use("Agg")

STYLES = ("default", "dark_background", "ggplot", "seaborn-v0_8")


def texts(figure: Any) -> list[Any]:
    """Return every text that is seen."""
    found = [text for text in figure.findobj(Text) if text.get_visible()]
    return [text for text in found if text.get_text().strip()]


def overlapping(figure: Any) -> list[tuple[str, str]]:
    """Return the texts that lie on each other or leave the figure."""
    figure.canvas.draw()
    boxes = [(text.get_text(), text.get_window_extent()) for text in _in_use(figure)]
    wrong = [(name, "the edge") for name, box in boxes if not _inside(box, figure.bbox)]
    for i, (name, box) in enumerate(boxes):
        wrong += [(name, other) for other, there in boxes[i + 1 :] if box.padded(-0.5).overlaps(there)]
    return wrong


def _in_use(figure: Any) -> list[Any]:
    """Return the texts of what is shown: ticks outside the limits keep their labels."""
    hidden: set[Any] = set()
    for ax in figure.findobj(Axes):
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not low <= tick.get_loc() <= high:
                    hidden |= {tick.label1, tick.label2}
    return [text for text in texts(figure) if text not in hidden]


def _inside(box: Any, whole: Any) -> bool:
    room = 1.0
    return bool(
        box.x0 >= whole.x0 - room
        and box.x1 <= whole.x1 + room
        and box.y0 >= whole.y0 - room
        and box.y1 <= whole.y1 + room
    )
