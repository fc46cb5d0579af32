"""The data of a page's script: the regions of each diagram, and typical rows of each region."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epiloss.auditing.views import HALVES
from epiloss.presentation.report.diagram import FRAME, Panel
from epiloss.presentation.report.escaping import clean, thumbnail

N_ROWS = 8  # typical rows per region
_AND = " and "  # joins the conditions of a description
_MOST_TEXT = 400_000  # characters of displayed rows
_MOST_IMAGES = 400
_MOST_WORK = 1_000_000_000  # regions times rows that are searched for typical rows
_LONGEST_CONDITION = 160


def payload(panels: Sequence[Panel]) -> dict[str, Any]:
    """Return the regions in drawing order, and typical rows of the costliest."""
    words = _Words()
    rows = _Rows()
    found = _rows_of_regions(panels, rows)
    names = list(dict.fromkeys(panel.class_name for panel in panels))
    shown = []
    for number, panel in enumerate(panels):
        regions, reach = panel.regions, panel.frame.reach
        digits = 4 if reach == 1 else 7
        shown.append(
            {
                "view": panel.view,
                "reach": reach,
                "class": names.index(panel.class_name),
                "x": _numbers(panel.x, 1),
                "y": _numbers(panel.y, 1),
                "place": regions["place"].tolist(),
                "state": panel.state.tolist(),
                "rule": [words.coded(rule) for rule in regions["rule"]],
                "level": regions["level_set"].tolist(),
                "n": regions["n"].tolist(),
                **{name: _numbers(regions[column], digits) for name, column in _COLUMNS.items()},
                "p": [float(f"{p:.2g}") for p in regions["pvalue_adjusted"]],
                "costliest": int(np.argmax(regions["cost"])) if panel.n else 0,
                "rows": found[number],
            }
        )
    return {
        "panels": shown,
        "bottom": FRAME.bottom,
        "height": FRAME.bottom - FRAME.top,
        "conditions": words.known,
        "texts": rows.texts,
        "columns": rows.columns,
        "images": rows.images,
    }


_COLUMNS = {
    "score": "score_mean",
    "rate": "label_mean",
    "low": "low",
    "high": "high",
    "expected": "expected",
}


@dataclass
class _Words:
    """Conditions by number: thousands of descriptions consist of the same few hundred conditions."""

    known: list[str] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)

    def coded(self, rule: Any) -> list[int]:
        """Return the numbers of the conditions of a description."""
        return [self._code(clean(part, _LONGEST_CONDITION)) for part in str(rule).split(_AND)]

    def _code(self, part: str) -> int:
        if part not in self._places:
            self._places[part] = len(self.known)
            self.known.append(part)
        return self._places[part]


@dataclass
class _Rows:
    """The displayed texts and images of rows, each stored once, up to a limit."""

    columns: list[str] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)
    images: dict[str, str] = field(default_factory=dict)
    _n_characters: int = 0

    def add(self, display: Any, row: int) -> bool:
        """Store a row, and return whether there was room for it."""
        key = str(row)
        if display is None or key in self.texts or key in self.images:
            return True
        if self._n_characters > _MOST_TEXT or len(self.images) >= _MOST_IMAGES:
            return False
        texts = {clean(name): clean(text) for name, text in display.texts(row).items()}
        if texts:
            self.columns = list(texts)
            self.texts[key] = list(texts.values())
            self._n_characters += sum(map(len, texts.values()))
        image = thumbnail(display.thumbnail(row))
        if image is not None:
            self.images[key] = image
        return True


def _rows_of_regions(panels: Sequence[Panel], rows: _Rows) -> list[list[Any]]:
    """Return the typical rows of each region of each panel; None for regions beyond the limit.

    The costliest regions are processed first.
    """
    found: list[list[Any]] = [[None] * panel.n for panel in panels]
    for number, at in _costliest_first(panels):
        panel = panels[number]
        details = panel.audit.details
        assert details is not None  # _costliest_first lists only regions with details
        place = int(panel.regions["place"][at])
        typical = details.typical_rows(place, N_ROWS)
        if not all(rows.add(details.display, int(row)) for row in typical):
            continue
        scores, labels = details.score_and_label(place, typical)
        digits = 3 if panels[number].frame.reach == 1 else 7
        found[number][at] = [typical.tolist(), _numbers(scores, digits), _numbers(labels, 3)]
    return found


def _costliest_first(panels: Sequence[Panel]) -> Iterable[tuple[int, int]]:
    """Return panel and position of the regions whose rows are searched for, the costliest first."""
    cells = [
        (view_rank, -float(cost), number, at)
        for number, panel in enumerate(panels)
        if panel.audit.details is not None
        for view_rank in [0 if panel.view == HALVES else 1]
        for at, cost in enumerate(panel.regions["cost"])
    ]
    n_rows = max((panel.audit.n_samples for panel in panels), default=1)
    most = max(_MOST_WORK // max(n_rows, 1), 100)
    return [(number, at) for _, _, number, at in sorted(cells)[:most]]


def _numbers(values: Any, digits: int) -> list[float]:
    return [float(value) for value in np.round(np.asarray(values, float), digits).tolist()]
