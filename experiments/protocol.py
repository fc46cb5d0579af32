"""The protocol, the tables and the sections that all studies share.

Bounds by trees follow the paper's tables (Perez-Lebel, Le Morvan, Varoquaux, "Beyond calibration", ICLR
2023): one half of the rows learns and the other evaluates, with 15 bins of equal width and a tree with
30 learning rows per region in each, before and after isotonic recalibration. They are compared with
estimates by twin learners, the default of ``epiloss.audit``, for which all rows learn. Losses are on
the paper's scale, the Brier score summed over both classes: twice the values of ``epiloss.audit``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

import epiloss
from epiloss import Audit, Estimate
from epiloss._saving import for_json, write_text
from epiloss.partition import Tree
from study_captions import CAPTIONS
from study_verdicts import Statement, as_table

SCALE = 2.0  # the Brier score of the paper sums over both classes
REGION_RATIO = 30
OUTPUT, IMAGES = Path("experiments/output"), Path("docs/images/studies")
COLUMNS = ("CL", "CL'", "GL", "GL'", "twins", "twins'")
T = TypeVar("T")
_ESTIMATES = ("cl", "cl_after", "gl", "gl_after", "twin", "twin_after")


class MissingError(Exception):
    """Something that a study needs is missing; the message says what to do."""


@dataclass(frozen=True)
class Line:
    """One row of a study's table: losses before and, with ``_after``, after isotonic recalibration."""

    name: str
    n: int
    accuracy: float
    cl: Estimate
    cl_after: Estimate
    gl: Estimate
    gl_after: Estimate
    twin: Estimate | None
    twin_after: Estimate | None
    seconds: float  # of the audits
    published: Mapping[str, float] | None = None  # by the names accuracy, CL, CL', GL, GL'
    publisher: str = "the paper's"
    induced: float | None = None  # by binning, and subtracted from GL
    induced_after: float | None = None

    @property
    def estimates(self) -> tuple[Estimate | None, ...]:
        """The estimates in the order of ``COLUMNS``."""
        return tuple(getattr(self, name) for name in _ESTIMATES)

    def to_dict(self) -> dict[str, Any]:
        """Return the line as plain values."""
        known = {name: None if one is None else one.to_dict() for name, one in self._named()}
        plain = {name: value for name, value in vars(self).items() if name not in _ESTIMATES}
        finite: dict[str, Any] = for_json({**plain, **known})
        return finite

    def _named(self) -> Iterable[tuple[str, Estimate | None]]:
        return zip(_ESTIMATES, self.estimates, strict=True)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Line:
        """Return the line that was written by ``to_dict``."""
        known = {name: None if plain[name] is None else Estimate(**plain[name]) for name in _ESTIMATES}
        return cls(**{**plain, **known})


def measure(
    name: str,
    y: Any,
    p: Any,
    X: Any,
    *,
    seed: int = 0,
    task: str | None = None,
    classes: Sequence[Any] | None = None,
    published: Mapping[str, float] | None = None,
    publisher: str = "the paper's",
    display: Any = None,
    clusters: Any = None,
    twins: bool = True,
) -> tuple[Line, Audit]:
    """Audit one set of predictions by the protocol, and return its line and the audit by twins.

    Rows of the same cluster may depend on each other. If ``p`` has several columns and the labels are
    integers, the classes are 0, 1, ... unless ``classes`` names them.
    """
    if classes is None and np.ndim(p) == 2 and np.asarray(y).dtype.kind in "iu":
        classes = range(np.shape(p)[1])
    audited = partial(
        epiloss.audit,
        *(y, p, X),
        task=task,
        classes=classes,
        clusters=clusters,
        display=display,
        random_state=seed,
    )
    line, result = measure_by(name, audited, twins=twins)
    return replace(line, published=published, publisher=publisher), result


def measure_by(
    name: str, audited: Callable[..., Audit], *, twins: bool = True, known: float | None = None
) -> tuple[Line, Audit]:
    """Audit by trees and by twins, and return the line and the latter audit.

    ``audited`` takes further options of an audit. The accuracy may be ``known``.
    """
    start = time.perf_counter()
    again = partial(audited, recalibrate="isotonic", partition=Tree(REGION_RATIO))
    with one_thread():
        trees = again(method="paper")
        result = again(method="twin") if twins else trees
    seconds = time.perf_counter() - start
    after, trees_after = result.recalibrated, trees.recalibrated
    assert after is not None
    assert trees_after is not None
    line = Line(
        name,
        result.n_samples,
        accuracy(result) if known is None else known,
        doubled(result.calibration_loss),
        doubled(after.calibration_loss),
        doubled(trees.partition_bound),
        doubled(trees_after.partition_bound),
        None if result.twin_estimate is None else doubled(result.twin_estimate),
        None if after.twin_estimate is None else doubled(after.twin_estimate),
        seconds,
        induced=SCALE * trees.induced,
        induced_after=SCALE * trees_after.induced,
    )
    return line, result


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit fits to one thread, because on a busy machine several threads wait for each other."""
    import sklearn.ensemble  # noqa: F401  the limit reaches the libraries that are loaded

    with threadpool_limits(1):
        yield


def doubled(estimate: Estimate) -> Estimate:
    """Return an estimate, its error and its interval on the scale of the paper."""

    def twice(value: float | None) -> float | None:
        return None if value is None else SCALE * value

    return replace(
        estimate,
        value=SCALE * estimate.value,
        stderr=twice(estimate.stderr),
        low=twice(estimate.low),
        high=twice(estimate.high),
    )


def accuracy(result: Audit) -> float:
    """Return the accuracy of the most likely class; a tie at one half counts as positive."""
    assert result.details is not None
    problem = result.details.problem
    if problem.scores.ndim == 2:
        return float(np.mean(problem.scores.argmax(axis=1) == problem.labels))
    return float(np.mean((problem.scores >= 0.5) == (problem.labels == problem.positive)))


def table(lines: Sequence[Line]) -> str:
    """Return the lines as aligned text, with published values below them."""
    rows = [["", "n", "accuracy", *COLUMNS]]
    for line in lines:
        cells = ["" if one is None else f"{one:z.4f}" for one in line.estimates]
        rows.append([line.name, f"{line.n:,}", f"{line.accuracy:.3f}", *cells])
        if line.published is not None:
            rows.append([f"  {line.publisher}", "", *_published_cells(line.published, "")])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == 0 or place > 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def markdown(lines: Sequence[Line]) -> str:
    """Return the lines as a Markdown table, with published values below them."""
    head = ["", "rows", "accuracy", *COLUMNS, "audit"]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for line in lines:
        cells = ["" if one is None else f"{one:z.4f}" for one in line.estimates]
        time_taken = f"{line.seconds:.1f} s"
        rows.append([escaped(line.name), f"{line.n:,}", f"{line.accuracy:.3f}", *cells, time_taken])
        if line.published is not None:
            cells = _published_cells(line.published, "*")
            rows.append([f"*{escaped(line.publisher)}*", "", *cells, ""])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def escaped(text: str) -> str:
    """Return text that is escaped for the cell of a table."""
    return " ".join(text.replace("|", "\\|").split())


def _published_cells(published: Mapping[str, float], mark: str) -> list[str]:
    known = (published.get(name) for name in ("accuracy", *COLUMNS))
    return ["" if value is None else f"{mark}{value:.3f}{mark}" for value in known]


@dataclass(frozen=True)
class Section:
    """The section of a study: a table, figures, a paragraph, and further tables in ``extra``.

    ``claims`` are its statements, for the table on the page of all studies, and ``further`` the lines
    of the tables in ``extra``.
    """

    title: str
    lines: Sequence[Line]
    text: str
    images: Sequence[Path]
    extra: str = ""
    claims: Sequence[Statement] = ()
    further: Sequence[Line] = ()

    @property
    def slug(self) -> str:
        """The title as a file name."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


def as_markdown(section: Section, folder: Path) -> str:
    """Return the section as a page; links to figures are relative to ``folder``."""
    parts = [f"# {section.title}"]
    if section.claims:
        parts.append(as_table(section.claims))
    if section.lines:
        parts.append(markdown(section.lines))
    parts += [section.text.strip(), section.extra.strip()]
    for image in section.images:
        link = Path(os.path.relpath(image, folder)).as_posix()
        caption = CAPTIONS.get(image.stem)
        if caption is None:
            parts.append(f"![{section.title}: {image.stem.replace('-', ' ')}]({link})")
        else:
            parts += [f"![{caption.alternative}]({link})", f"*{caption.text}*"]
    return "\n\n".join(part for part in parts if part) + "\n"


def write_section(section: Section, folder: Path) -> Path:
    """Write ``<slug>.md``, and ``<slug>.json`` with all digits; return the former."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = {
        "title": section.title,
        "text": section.text,
        "extra": section.extra,
        "claims": [claim.to_dict() for claim in section.claims],
        "images": [Path(os.path.relpath(image, folder)).as_posix() for image in section.images],
        "lines": [line.to_dict() for line in section.lines],
        "further": [line.to_dict() for line in section.further],
    }
    write_text(folder / f"{section.slug}.json", json.dumps(plain, indent=1, allow_nan=False) + "\n")
    page = folder / f"{section.slug}.md"
    write_text(page, as_markdown(section, folder))
    return page


def read_section(path: Path) -> Section:
    """Return the section of a ``.json`` file."""
    plain = json.loads(path.read_text(encoding="utf-8"))
    lines, further = ([Line.from_dict(line) for line in plain[name]] for name in ("lines", "further"))
    images = [path.parent / image for image in plain["images"]]
    claims = tuple(Statement(**claim) for claim in plain["claims"])
    return Section(plain["title"], lines, plain["text"], images, plain["extra"], claims, further)


def options(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every study."""
    parser = _Options(description=description)
    cache = Path("~/.cache/epiloss-studies").expanduser()
    parser.add_argument("--quick", action="store_true", help="a small version, in under two minutes")
    parser.add_argument("--cache", type=Path, default=cache, help="downloads and computed arrays")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"sections; default {OUTPUT}")
    parser.add_argument(
        "--images", type=Path, help=f"pictures; default {IMAGES}, with --quick in the output folder"
    )
    parser.add_argument("--seed", type=_seed, default=0)
    return parser


class _Options(argparse.ArgumentParser):
    """A parser that keeps figures of quick runs out of the documentation."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        given, rest = super().parse_known_args(args, namespace)
        if given.images is None:
            given.images = given.output / "images" if given.quick else IMAGES
        return given, rest


def _seed(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"a seed must be an integer of at least 0, got {text!r}")
    return int(text)


def progress(iterable: Iterable[T], text: str, total: int | None = None) -> Iterable[T]:
    """Show progress on standard error if it is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(iterable, text, total, console=console, disable=not console.is_terminal)
