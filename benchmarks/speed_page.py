"""The results of the speed benchmark, and the page that shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from reporting import Verdict

NAN = float("nan")
BEGIN, END = "<!-- speed: written by benchmarks/speed.py -->", "<!-- end of speed -->"
SIZE, FASTER, LIGHTGBM = "rows x columns", "times as fast", "one LightGBM fit"
MEMORY, PEER_MEMORY = "memory, epiloss", "memory, glest"
DEFAULT = "epiloss (default)"
README_COLUMNS = (SIZE, "glest", DEFAULT, FASTER, LIGHTGBM, PEER_MEMORY, MEMORY)
FLOOR = """The floor is the CPU time to quantise every row once, the minimum for trees on quantised
columns. Up to 10,000 rows it is below a millisecond. Calling the parts of an audit from Python takes
longer than that, so the target of eight times the floor is out of reach there.
"""
INTRODUCTION = """# Speed

This page compares the default call, `epiloss.audit(y, s, X)`, with glest, the estimator by the paper's
authors, at its defaults. Each call runs in its own process, on one thread, and the calls take turns.
Times are CPU times; memory is the peak during the call, beyond the data and the libraries. `make bench`
(`python benchmarks/speed.py --markdown docs/speed.md --readme README.md`) writes the page.

The default call does more than glest: it estimates the grouping loss by twin learners and also reports
the regions of a partition. "Partition alone" is a call with `method="paper"`, which does the same work
as glest. The LightGBM fit is for comparison: 100 trees of 31 leaves, on the same rows, that predict the
label minus the score from the features and the score.
"""
PARTITION = """## The partition alone

`method="paper"` and glest do the same work: one split, 15 bins, trees, statistics. "Same leaves" is the
speed-up if glest too has at least 30 learning rows in each leaf. The NumPy loops are used if the package
was installed without a C compiler.
"""
THREADS = """## Two threads

Wall times of the default call with `n_jobs=1` and `n_jobs=2`, in turns, in one process. They are only
meaningful on a machine with two free cores: "free cores" is how many cores two busy threads got at the
same time.
"""
TARGETS = """## Targets

A growth exponent is the slope of log CPU time against log rows or log columns; 1 means proportional.
"""
SCALE = "For files larger than memory, see [data larger than memory](scale.md)."


@dataclass(frozen=True)
class Size:
    """Rows and columns, and the targets of the default call and of the partition.

    ``over_glest`` and, for each kernel, ``partition_over_glest`` are the least speed-ups over glest;
    ``over_lightgbm`` and ``over_partition`` limit the CPU time of the default call.
    """

    n: int
    d: int
    repetitions: int = 1
    over_glest: float | None = None
    over_lightgbm: float | None = None
    over_partition: float | None = None
    partition_over_glest: Mapping[str, float] = field(default_factory=dict)
    peer: bool = True
    same_leaves: bool = True

    def __str__(self) -> str:
        return f"{self.n:,} x {self.d:,}"


@dataclass(frozen=True)
class Cost:
    """Medians over the repetitions of one job: seconds and megabytes; NaN if it was not run."""

    cpu: float = NAN
    wall: float = NAN
    peak: float = NAN
    data: float = NAN

    @classmethod
    def median(cls, found: Sequence[Mapping[str, float]]) -> Cost:
        """Return the medians over the repetitions."""
        if not found:
            return cls()
        names = ("cpu", "wall", "peak", "data")
        return cls(*(float(np.median([one[name] for one in found])) for name in names))

    @property
    def was_measured(self) -> bool:
        """Whether the job was run."""
        return self.cpu == self.cpu


@dataclass(frozen=True)
class Row:
    """The results for one size; those of the partition for each kernel."""

    size: Size
    glest: Cost
    glest_same_leaves: Cost
    default: Cost
    lightgbm: Cost
    partition: Mapping[str, Cost]
    floor: float

    @property
    def ratio(self) -> float:
        """The CPU time of glest divided by that of the default call."""
        return self.glest.cpu / self.default.cpu

    @property
    def over_lightgbm(self) -> float:
        """The CPU time of the default call divided by that of a LightGBM fit."""
        return self.default.cpu / self.lightgbm.cpu

    @property
    def over_partition(self) -> float:
        """The CPU time of the default call divided by that of the partition."""
        return self.default.cpu / self.partition.get("compiled", Cost()).cpu


@dataclass(frozen=True)
class Findings:
    """All results of one run."""

    rows: Sequence[Row]
    default_by_numpy: Mapping[str, Cost]
    growth: Mapping[str, float]
    threads: Mapping[str, Mapping[str, float]]
    profiled: str
    profile: Mapping[str, float]


def page(found: Findings, verdicts: Sequence[Verdict], notes: Sequence[str]) -> str:
    """Return the page."""
    met = sum(one.met for one in verdicts)
    parts = [INTRODUCTION, default_table(found.rows), *_by_numpy(found), *notes]
    parts += [PARTITION, partition_table(found.rows), FLOOR]
    if found.threads:
        parts += [THREADS, threads_table(found.threads)]
    parts += ["## Where the time goes", _profile(found.profiled, found.profile)]
    parts += [TARGETS, "\n".join(["```", *map(str, verdicts), "```"])]
    parts += [f"{met} of {len(verdicts)} targets met.", SCALE]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def default_table(rows: Sequence[Row], columns: Sequence[str] = ()) -> str:
    """Return the table of the default call with some columns, or with all."""
    lines = [
        {
            SIZE: str(row.size),
            "glest": _seconds(row.glest.cpu),
            DEFAULT: _seconds(row.default.cpu),
            FASTER: number(row.ratio),
            LIGHTGBM: _seconds(row.lightgbm.cpu),
            "epiloss over LightGBM": number(row.over_lightgbm),
            "partition alone": _seconds(row.partition.get("compiled", Cost()).cpu),
            "default over partition": number(row.over_partition),
            PEER_MEMORY: _megabytes(row.glest.peak),
            MEMORY: _megabytes(row.default.peak),
        }
        for row in rows
    ]
    return _table([{name: line[name] for name in columns or line} for line in lines])


def partition_table(rows: Sequence[Row]) -> str:
    """Return the table of the partition alone, for each kernel."""
    return _table(
        [
            {
                SIZE: str(row.size),
                "loops": kernel,
                "glest": _seconds(row.glest.cpu),
                "epiloss": _seconds(ours.cpu),
                FASTER: number(row.glest.cpu / ours.cpu),
                "in wall time": number(row.glest.wall / ours.wall),
                "same leaves": number(row.glest_same_leaves.cpu / ours.cpu),
                PEER_MEMORY: _megabytes(row.glest.peak),
                MEMORY: _megabytes(ours.peak),
                "times the floor": number(ours.cpu / row.floor),
            }
            for row in rows
            for kernel, ours in row.partition.items()
        ]
    )


def threads_table(threads: Mapping[str, Mapping[str, float]]) -> str:
    """Return the table of wall times with one thread and with two."""
    return _table(
        [
            {
                SIZE: size,
                "one thread": _seconds(one["one"]),
                "two threads": _seconds(one["two"]),
                FASTER: number(one["one"] / one["two"]),
                "free cores": f"{one['cores']:.1f}",
                "same bits": "yes" if one["same"] else "NO",
            }
            for size, one in threads.items()
        ]
    )


def with_table(text: str, table: str) -> str:
    """Return a page with the table between the markers replaced.

    Examples
    --------
    >>> with_table(f"before {BEGIN} old {END} after", "new").splitlines()[1:3]
    ['', 'new']
    """
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"the page must have {BEGIN!r} and {END!r}. Add them where the table goes.")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def _by_numpy(found: Findings) -> list[str]:
    """Return sentences on the CPU time of the default call with the NumPy loops, if measured."""
    compiled = {str(row.size): row.default.cpu for row in found.rows}
    text = []
    for size, cost in found.default_by_numpy.items():
        longer = number(cost.cpu / compiled.get(size, NAN))
        text.append(
            f"With the NumPy loops (`EPILOSS_KERNEL=numpy`), the default call takes\n"
            f"{_seconds(cost.cpu)} at {size}" + (f", {longer} times as long." if longer else ".")
        )
    return text


def _profile(size: str, shares: Mapping[str, float]) -> str:
    """Return the share of CPU time of each module, from the largest down."""
    large = {module: share for module, share in shares.items() if share >= 0.005}
    lines = {**large, "all others": 1 - sum(large.values())}
    text = (
        f"The default call at {size}: the share of CPU time of each module, including the libraries it "
        "calls."
    )
    return f"{text}\n\n" + _table(
        [{"module": name, "share": f"{part:.1%}"} for name, part in lines.items()]
    )


def _table(lines: Sequence[Mapping[str, str]]) -> str:
    """Return an aligned Markdown table without its empty columns."""
    columns = [[name, *(line[name] for line in lines)] for name in lines[0]]
    written = [column for column in columns if any(column[1:])]
    aligned = [_aligned(column, str.rjust if i else str.ljust) for i, column in enumerate(written)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in zip(*aligned, strict=True))


def _aligned(column: Sequence[str], align: Callable[[str, int], str]) -> list[str]:
    """Return the cells of a column at the same width, with a line of dashes below the first."""
    width = max(map(len, column))
    rule = "-" * width if align is str.ljust else "-" * (width - 1) + ":"
    return [align(column[0], width), rule, *(align(cell, width) for cell in column[1:])]


def number(value: float, digits: int = 2) -> str:
    """Format a number with two or more significant digits; return "" for NaN.

    Examples
    --------
    >>> number(0.0123), number(12.3), number(1234)
    ('0.012', '12', '1,234')
    """
    if value != value:
        return ""
    decimals = max(0, digits - 1 - int(np.floor(np.log10(abs(value))))) if value else 0
    return f"{value:,.{decimals}f}"


def _seconds(value: float) -> str:
    return number(value) and f"{number(value)} s"


def _megabytes(value: float) -> str:
    return "" if value != value else f"{value:z,.0f} MB"
