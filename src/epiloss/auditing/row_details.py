"""The rows and regions behind an audit, kept for what is computed on demand.

They are neither copied nor saved. Descriptions of regions, typical rows and the confidence band of the
calibration curve are computed on first access.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from epiloss._random import stream
from epiloss._typing import Codes, Floats
from epiloss.auditing.tables import group_rules
from epiloss.calibration.confidence_band import curve_with_band
from epiloss.errors import OptionError
from epiloss.estimation.options import Options
from epiloss.estimation.partition_bound import Evaluation, FoldRegions
from epiloss.input.problem import Problem
from epiloss.input.row_display import Display
from epiloss.partition.descriptions import Describer, Description, Step
from epiloss.segments.describe import rows_like
from epiloss.table import Table

Kept = TypeVar("Kept")
_MOST_COLUMNS = 500  # columns that distances to the centre of a region are computed in
_N_TYPICAL = 3  # rows that a region of an embedding is described by


@dataclass(frozen=True)
class RowDetails:
    """The checked rows, their evaluation, and what to display of a row.

    Regions are numbered in the order of the region table: by class, then by fold.
    """

    problem: Problem
    options: Options
    evaluations: tuple[Evaluation, ...]
    display: Display | None
    # For each class, the cross-fitted predictions of the residuals.
    predictions: tuple[NDArray[np.float32], ...] = ()
    # What was computed on demand, so that the card, the page and the plots compute it once.
    cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def kept(self, name: str, compute: Callable[[], Kept]) -> Kept:
        """Return what was computed under this name before, or compute and keep it."""
        if name not in self.cache:
            self.cache[name] = compute()
        found: Kept = self.cache[name]
        return found

    def rules(self, regions: Codes) -> NDArray[Any]:
        """Return the descriptions of regions."""
        if self.problem.groups is not None:
            return group_rules(self.evaluations, self.problem.groups)[regions]
        numbers = [int(region) for region in regions]
        paths = [self._path(number) for number in numbers]
        features = self.problem.features
        rules: Sequence[Description | None] = [None] * len(paths)
        if features is not None and not features.is_embedding:
            rules = Describer(features).describe(path or [] for path in paths)
        named = map(self._named, numbers, paths, rules)
        return np.array(list(named), object)

    def rows(self, region: int) -> Codes:
        """Return the rows that were evaluated in a region, as numbers of the user's rows."""
        inside = self._rows(region)
        return inside if self.problem.rows is None else self.problem.rows[inside]

    def typical_rows(self, region: int, n: int = 8) -> Codes:
        """Return rows of a region, those nearest to its centre first.

        Features are scaled by their standard deviations; without features, the score is used.
        """
        inside = self._rows(region)
        points = self._points(inside)
        distance = np.nansum((points - _means(points)) ** 2, axis=1)
        nearest = inside[np.argsort(distance, kind="stable")[:n]]
        return nearest if self.problem.rows is None else self.problem.rows[nearest]

    def score_and_label(self, region: int, rows: Codes) -> tuple[Floats, Floats]:
        """Return the scores and labels of some of the user's rows."""
        kept = self.problem.rows
        places = rows
        if kept is not None:
            order = np.argsort(kept)
            places = order[np.searchsorted(kept, rows, sorter=order)]
        problem = self.evaluations[self._place(region)[0]].problem
        return problem.scores[places], problem.labels[places]

    def calibration_curve(self, class_name: str | None = None, n_points: int = 101) -> Table:
        """Return the calibration curve of the scores as given, with its pointwise confidence band."""
        names = [one.problem.name for one in self.evaluations]
        place = (
            0 if class_name is None else ([str(name) for name in names] + [class_name]).index(class_name)
        )
        if place == len(names) or (class_name is None and len(names) > 1):
            raise OptionError(
                f"class must be one of {', '.join(map(repr, map(str, names)))}, got {class_name!r}."
            )
        return self.kept(
            f"calibration curve {place} of {n_points} points",
            lambda: curve_with_band(
                self.options.curve,
                self.evaluations[place].problem,
                level=self.options.confidence_level,
                n_points=n_points,
                generator=stream(self.options.seed, "bands"),
            ),
        )

    def _place(self, region: int) -> tuple[int, FoldRegions, int]:
        """Return the class of a region, its fold, and its position in the fold."""
        for place, one in enumerate(self.evaluations):
            for fold in one.folds:
                if region < fold.n:
                    return place, fold, region
                region -= fold.n
        raise OptionError(f"result.regions has no region {region}. Pass the number of one of its rows.")

    def _rows(self, region: int) -> Codes:
        _, fold, cell = self._place(region)
        return np.asarray(fold.rows[fold.cells == cell], np.int64)

    def _path(self, number: int) -> Sequence[Step] | None:
        """Return the splits that lead to a region; None if regions are not the result of splits."""
        _, fold, cell = self._place(number)
        if fold.partition is None:
            return []
        return fold.partition.path(int(fold.level_set[cell]), int(fold.region[cell]))

    def _named(self, number: int, path: Sequence[Step] | None, rule: Description | None) -> str:
        if path is None:
            _, fold, cell = self._place(number)
            assert fold.partition is not None  # only a partition has regions without splits
            return f"{fold.partition.noun} {int(fold.region[cell])}"
        if rule is None:
            return self._by_typical_rows(number) if path else "all rows"
        return str(rule)

    def _by_typical_rows(self, region: int) -> str:
        """Describe a region of an embedding, whose columns have no meaning, by its typical rows."""
        return rows_like(self.typical_rows(region, _N_TYPICAL), self.display)

    def _points(self, rows: Codes) -> Floats:
        features = self.problem.features
        if features is None:
            return self.evaluations[0].problem.scores[rows][:, None]
        columns = np.linspace(0, features.n_columns - 1, min(features.n_columns, _MOST_COLUMNS))
        inside = features.take(rows)
        points = np.column_stack([inside.column(int(j)) for j in np.unique(columns.astype(int))])
        scale = np.sqrt(_means((points - _means(points)) ** 2))
        return np.asarray(points / np.where(scale > 0, scale, 1.0), float)


def _means(points: Floats) -> Floats:
    """Return the mean of each column, 0 if it has no value."""
    count = np.maximum((~np.isnan(points)).sum(axis=0), 1)
    return np.asarray(np.nansum(points, axis=0) / count, float)
