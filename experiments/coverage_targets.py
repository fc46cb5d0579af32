"""The targets of the twin estimate in the coverage experiment, and whether a run meets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

TWIN, RIVAL = "twin", "crossfit"
BOUNDS = ("partition", RIVAL)
GROUPING_LOSSES = (*BOUNDS, TWIN)
NAN = float("nan")


@dataclass(frozen=True)
class Line:
    """One quantity in one cell, over the repetitions; NaN for columns that do not apply."""

    setting: str
    n: int
    quantity: str
    repetitions: int
    truth: float
    mean: float
    sd: float
    bias: float
    rmse: float
    tightness: float
    coverage: float
    coverage_on_rows: float
    validity: float
    rejected: float
    peer_repetitions: int
    peer_rmse_ratio: float

    @property
    def stderr(self) -> float:
        """The standard error of the mean."""
        return float(self.sd / np.sqrt(self.repetitions))

    @property
    def cell(self) -> tuple[str, int]:
        """The setting and the number of rows."""
        return self.setting, self.n


@dataclass(frozen=True)
class Verdict:
    """A target, the number of cells it applies to, and the cells that miss it."""

    target: str
    cells: int
    missed: Sequence[str]

    def __str__(self) -> str:
        found = f"{len(self.missed)} of {self.cells} miss it" if self.missed else f"{self.cells} cells"
        where = f" ({'; '.join(self.missed)})" if self.missed else ""
        return f"{'MISSED' if self.missed else 'met   '}  {self.target}: {found}{where}"


@dataclass(frozen=True)
class Target:
    """A condition on a number of each cell to which the target applies."""

    name: str
    value: Callable[[Line, Line], float]  # of the lines of the twin estimate and of its rival
    accepts: Callable[[float], bool]
    applies: Callable[[Line, int], bool] = lambda line, n_columns: True


TARGETS = (
    Target(
        "tightness at least 0.85 at 10,000 rows",
        lambda one, rival: one.tightness,
        lambda found: found >= 0.85,
        lambda one, columns: one.truth > 0 and one.n == 10_000,
    ),
    Target(
        "tightness at least 0.65 at 1,000 rows of 10 columns or fewer",
        lambda one, rival: one.tightness,
        lambda found: found >= 0.65,
        lambda one, columns: one.truth > 0 and one.n == 1_000 and columns <= 10,
    ),
    Target(
        "mean at most 2 standard errors above the truth",
        lambda one, rival: one.bias / one.stderr if one.stderr > 0 else 0.0,
        lambda found: found <= 2,
    ),
    Target(
        "RMSE below the cross-fitted bound's",
        lambda one, rival: one.rmse / rival.rmse,
        lambda found: found < 1,
    ),
    Target(
        "RMSE below glest's",
        lambda one, rival: 1 / one.peer_rmse_ratio,
        lambda found: found < 1,
        lambda one, columns: one.peer_repetitions > 0,
    ),
    Target(
        "interval covers the estimator's mean in 0.92 to 0.985",
        lambda one, rival: one.coverage,
        lambda found: 0.92 <= found <= 0.985,
    ),
    Target(
        "one-sided limit below the truth in at least 0.94",
        lambda one, rival: one.validity,
        lambda found: found >= 0.94,
    ),
    Target(
        "level at most 0.065",
        lambda one, rival: one.rejected,
        lambda found: found <= 0.065,
        lambda one, columns: one.truth == 0,
    ),
)


def judge(lines: Sequence[Line], columns: Mapping[str, int]) -> list[Verdict]:
    """Compare the twin estimate with the targets; ``columns`` has the number of each setting."""
    rivals = {line.cell: line for line in lines if line.quantity == RIVAL}
    twins = [line for line in lines if line.quantity == TWIN]
    verdicts = []
    for target in TARGETS:
        cells = [one for one in twins if target.applies(one, columns[one.setting])]
        if not cells:
            continue
        values = {one.cell: target.value(one, rivals[one.cell]) for one in cells}
        missed = [
            f"{setting} {n:,}: {value:.3g}"
            for (setting, n), value in values.items()
            if not target.accepts(value)
        ]
        verdicts.append(Verdict(target.name, len(cells), missed))
    return verdicts
