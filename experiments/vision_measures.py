"""The steps that all vision studies share: tables, figures and reports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import epiloss
from epiloss import Audit
from epiloss.analysis.comparison import compared
from epiloss.presentation.plot import HeterogeneityDisplay
from epiloss.presentation.plot.style import matplotlib_modules, plain
from epiloss.sources.whole_files import read_file
from protocol import Line, measure
from study_pictures import bars, keep_fullest_legend, losses, save

_SHOWN = {"stump": "two regions by a balanced stump", "kmeans": "two regions by k-means"}
_SMALLEST = 30  # rows of a group in the picture of groups


@dataclass(frozen=True)
class Predictions:
    """A network's predictions for images (n,), its features, and what to display of each image."""

    name: str
    y: NDArray[Any]
    p: NDArray[Any]
    X: NDArray[Any]
    display: Any = None  # files or pixels
    groups: NDArray[np.object_] | None = None  # renditions or corruptions
    diagram: bool = False  # whether its grouping diagrams are drawn
    published: Mapping[str, float] | None = None
    publisher: str = "the paper's"


@dataclass
class Findings:
    """The results of a study: lines sorted by accuracy, figures and reports."""

    lines: list[Line] = field(default_factory=list)
    images: list[Path] = field(default_factory=list)
    pages: list[Path] = field(default_factory=list)
    by_group: dict[str, Audit] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Return where the pages are."""
        if not self.pages:
            return ""
        names = ", ".join(f"`{page.name}`" for page in self.pages)
        return (
            f"`{self.pages[0].parent.as_posix()}` has pages with thumbnails of the worst regions, and "
            f"the comparison: {names}."
        )


def extracted(path: Path) -> dict[str, NDArray[Any]]:
    """Return the columns of an extraction, with scores that sum to one in double precision."""
    columns: dict[str, NDArray[Any]] = dict(read_file(str(path)))
    scores = columns["scores"].astype(np.float64)
    return {**columns, "scores": scores / scores.sum(axis=1, keepdims=True)}


def studied(
    slug: str, title: str, predictions: Iterable[Predictions], *, images: Path, output: Path, seed: int
) -> Findings:
    """Measure predictions one after another, and draw and write what they show.

    One at a time: of all but the numbers nothing is kept, so that 27 networks fit into memory.
    """
    output.mkdir(parents=True, exist_ok=True)
    found, audits = Findings(), dict[str, Audit]()
    for one in predictions:
        line, result = measure(
            one.name,
            one.y,
            one.p,
            one.X,
            seed=seed,
            published=one.published,
            publisher=one.publisher,
            display=one.display,
        )
        found.lines.append(line)
        if one.diagram:
            found.images.append(diagrams(line, result, images / f"{slug}-{slugged(one.name)}.png"))
        if one.groups is not None:
            found.by_group[one.name] = by_group(one, seed)
        if one.display is not None:
            page = output / f"{slug}-{slugged(one.name)}.html"
            result.to_html(page, title=f"{title}: {one.name}")
            found.pages.append(page)
        audits[one.name] = replace(
            result,
            details=None,
            recalibrated=None
            if result.recalibrated is None
            else replace(result.recalibrated, details=None),
        )
    found.lines.sort(key=lambda line: -line.accuracy)
    found.images.insert(0, bars(found.lines, images / f"{slug}-losses.png", title))
    if found.by_group:
        found.images.append(heterogeneity(found.by_group, images / f"{slug}-groups.png"))
    if len(audits) > 1 and len({one.n_samples for one in audits.values()}) == 1:
        page = output / f"{slug}-comparison.html"
        compared(audits).to_html(page, title=title)
        found.pages.append(page)
    return found


def diagrams(line: Line, result: Audit, path: Path) -> Path:
    """Draw the grouping diagrams with two regions per level set, by stumps and by k-means."""
    figure, axes = matplotlib_modules().subplots(1, 2, figsize=(10.4, 5.2), layout="constrained")
    drawn = []
    for ax, (partition, words) in zip(axes, _SHOWN.items(), strict=True):
        drawn.append(result.plot(ax, partition=partition))
        ax.set_title(words, fontsize=9.5)
    keep_fullest_legend(drawn, len(drawn))
    figure.suptitle(plain(f"{line.name}: {losses(line)}"), fontsize=11)
    return save(figure, path)


def by_group(one: Predictions, seed: int) -> Audit:
    """Audit the top label by known groups (renditions, corruptions)."""
    hit = np.asarray(one.p).argmax(axis=1) == np.asarray(one.y)
    top = np.asarray(one.p).max(axis=1)
    return epiloss.audit(hit, top, subgroups=one.groups, task="binary", random_state=seed)


def heterogeneity(audits: Mapping[str, Audit], path: Path) -> Path:
    """Draw the differences of groups from all images with the same score."""
    return save(HeterogeneityDisplay.from_audits(audits).plot(smallest=_SMALLEST).figure_, path)


def slugged(text: str) -> str:
    """Return a text as a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
