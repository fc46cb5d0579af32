"""Estimate, Table and Audit: frozen results, and how they print."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epiloss.atomic import write_text
from epiloss.errors import MissingExtraError, OptionError
from epiloss.influence import Influence

if TYPE_CHECKING:
    from epiloss.evidence import Evidence
    from epiloss.plot.grouping import GroupingDisplay
    from epiloss.repair import RegionRecalibrator
    from epiloss.repairing import RepairResult
    from epiloss.verdict import Verdict

SCHEMA = 1  # of to_dict and to_json


@dataclass(frozen=True)
class Estimate:
    """A value with its uncertainty, where that is known.

    Examples
    --------
    >>> f"{Estimate(0.0312, low=0.0274, high=0.035):.3f}", f"{Estimate(0.0312):.3f}"
    ('0.031 [0.027, 0.035]', '0.031')
    """

    value: float
    stderr: float | None = None
    low: float | None = None
    high: float | None = None
    pvalue: float | None = None

    def __float__(self) -> float:
        return self.value

    def __format__(self, spec: str) -> str:
        text = format(self.value, spec)
        if self.low is None or self.high is None:
            return text
        return f"{text} [{format(self.low, spec)}, {format(self.high, spec)}]"

    def to_dict(self) -> dict[str, float | None]:
        """Return the fields by name."""
        return dict(vars(self))


def percent(share: float) -> str:
    """Return a share in per cent, with the digits that it has.

    Examples
    --------
    >>> percent(0.95), percent(0.995), percent(0.57)
    ('95%', '99.5%', '57%')
    """
    return f"{100 * share:.10g}%"


@dataclass(frozen=True)
class Later:
    """A column that is worked out when it is first asked for, and only for some of the rows."""

    make: Callable[[NDArray[np.int64]], NDArray[Any]]
    rows: NDArray[np.int64]


class Columns(Mapping[str, NDArray[Any]]):
    """Columns by name, some of them worked out later.

    Examples
    --------
    >>> squares = Later(lambda rows: rows**2, np.arange(5))
    >>> columns = Columns({"n": np.arange(5), "square": squares}).take(np.array([3, 1]))
    >>> columns["square"].tolist(), list(columns)
    ([9, 1], ['n', 'square'])
    """

    def __init__(self, columns: Mapping[str, NDArray[Any] | Later]) -> None:
        known = columns._columns if isinstance(columns, Columns) else columns
        self._columns: dict[str, NDArray[Any] | Later] = dict(known)

    def __getitem__(self, name: str) -> NDArray[Any]:
        column = self._columns[name]
        if isinstance(column, Later):
            column = self._columns[name] = column.make(column.rows)
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def also(self, name: str, column: NDArray[Any] | Later) -> Columns:
        """Return these columns and one more; none is worked out for that."""
        return Columns({**self._columns, name: column})

    def take(self, rows: NDArray[Any]) -> Columns:
        """Return some of the rows; what is worked out later is so for these alone."""
        return Columns(
            {
                name: Later(column.make, column.rows[rows])
                if isinstance(column, Later)
                else column[rows]
                for name, column in self._columns.items()
            }
        )


@dataclass(frozen=True)
class Table:
    """Named columns of equal length.

    Examples
    --------
    >>> table = Table({"level_set": np.array([0, 1]), "n": np.array([10, 12])})
    >>> len(table), int(table["n"].sum())
    (2, 22)
    """

    columns: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def take(self, rows: NDArray[Any]) -> Table:
        """Return some of the rows, in their order."""
        return Table(Columns(self.columns).take(rows))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists."""
        return {name: column.tolist() for name, column in self.columns.items()}

    def to_pandas(self) -> Any:
        """Return a pandas data frame."""
        try:
            import pandas
        except ImportError:
            raise MissingExtraError(
                "to_pandas needs pandas, which is not installed. Run: pip install pandas"
            ) from None
        return pandas.DataFrame(dict(self.columns))


@dataclass(frozen=True)
class Bounds:
    """What cannot be seen from single labels and bins.

    ``grouping_loss_high`` is the only upper limit that needs no assumption, ``E[e(C)]``. The others
    are for the Brier score: binning hides between ``binning_low`` and ``binning_high`` of the
    calibration and grouping loss together, whatever the calibration curve does inside the bins,
    and the epistemic loss is therefore at least ``epistemic_loss_low``.
    """

    grouping_loss_high: float
    binning_low: float | None = None
    binning_high: float | None = None
    epistemic_loss_low: float | None = None


class SavedAsJson(ABC):
    """A result that can be written as JSON."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values; what is not finite becomes None."""

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the result as JSON, and write it to ``path`` if there is one."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        if path is not None:
            write_text(path, text + "\n")
        return text


@dataclass(frozen=True)
class Audit(SavedAsJson):
    """How far a classifier's probabilities are from the truth, and where.

    The ledger adds up: ``score = calibration_loss + grouping_loss + remainder``. The grouping loss
    is a lower bound, so the remainder is the irreducible loss and what the regions cannot see.
    """

    task: str
    rule: str
    method: str
    recommendation: str  # which lower bound leads, and why
    n_samples: int
    n_evaluated: int
    uninformed: float  # the score of one who knows the base rate alone
    score: Estimate
    calibration_loss: Estimate
    grouping_loss: Estimate
    remainder: Estimate
    plugin: float
    bias: float
    explained: float
    induced: float
    bounds: Bounds
    partition_bound: Estimate
    crossfit_bound: Estimate | None
    irreducible_loss: Estimate | None  # known from repeated labels only
    level_sets: Table = field(repr=False)
    regions: Table = field(repr=False)
    histogram: Table = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)
    warnings: tuple[str, ...] = ()
    recalibrated: Audit | None = field(default=None, repr=False)
    # of each row, or cluster, on each loss: what compares audits of the same rows; not written out
    influence: Mapping[str, Influence] = field(default_factory=dict, repr=False, compare=False)
    # the rows and their regions, from which more is told when asked; not written out
    evidence: Evidence | None = field(default=None, repr=False, compare=False)

    @property
    def verdict(self) -> Verdict:
        """What to do, in one sentence."""
        from epiloss.verdict import verdict

        return verdict(self)

    def worst_regions(self, n: int = 10, side: str | None = None) -> Table:
        """Return the regions that cost most, the worst first.

        ``side`` is "over" for those with lower rates than all rows with such scores, for whom even
        calibrated scores are too high, and "under" for those with higher rates.
        """
        if side not in (None, "over", "under"):
            raise OptionError(f"side must be 'over', 'under' or None, got {side!r}.")
        deviation = self.regions["deviation"]
        here = {None: deviation == deviation, "over": deviation < 0, "under": deviation > 0}[side]
        order = np.argsort(-self.regions["cost"], kind="stable")
        return self.regions.take(order[here[order]][:n])

    def plot(self, ax: Any = None, *, partition: Any = "stump", **layers: Any) -> GroupingDisplay:
        """Draw the grouping diagram, with two regions in each level set or those of a partition.

        ``partition=None`` draws the audit's own regions. Further options are those of
        :meth:`epiloss.GroupingDisplay.plot`.
        """
        from epiloss.auditing import repartitioned
        from epiloss.plot.grouping import GroupingDisplay

        shown = self if partition is None else repartitioned(self, partition, swap=False)
        return GroupingDisplay.from_audit(shown).plot(ax, **layers)

    def repair(self, recalibrator: RegionRecalibrator | None = None, part: float = 0.5) -> RepairResult:
        """Learn a repair on a ``part`` of the rows, and audit the others before and after it."""
        from epiloss.repairing import repair_audit

        return repair_audit(self, recalibrator, part)

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """Return the audit as a page that needs nothing else, and write it to ``path`` if given."""
        from epiloss.report import audit_page

        text = audit_page(self, title=title)
        if path is not None:
            write_text(path, text)
        return text

    def log_to_mlflow(
        self,
        prefix: str = "epiloss",
        *,
        run_id: str | None = None,
        client: Any = None,
        step: int = 0,
    ) -> str:
        """Log losses, options, verdict and report into an MLflow run, and return the run's id.

        The run is the active one, or that of ``run_id``, of the default ``mlflow.MlflowClient()`` or
        that of ``client``. Each loss is a metric ``prefix/loss``, with ``_stderr``, ``_low``, ``_high``
        and ``_pvalue`` where they are known.
        """
        from epiloss.mlflow_log import log_audit

        return log_audit(self, prefix, run_id=run_id, client=client, step=step)

    def _repr_html_(self) -> str:
        from epiloss.report import audit_card

        return audit_card(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values; what is not finite becomes None."""
        plain = {
            name: value.to_dict() if isinstance(value, Estimate | Table) else value
            for name, value in vars(self).items()
            if name not in ("influence", "evidence")
        }
        plain["verdict"] = dict(vars(self.verdict))
        plain["bounds"] = dict(vars(self.bounds))
        plain["options"] = dict(self.options)
        plain["warnings"] = list(self.warnings)
        plain["recalibrated"] = self.recalibrated.to_dict() if self.recalibrated else None
        finite: dict[str, Any] = for_json({"schema": SCHEMA, **plain})
        return finite

    def __str__(self) -> str:
        from epiloss.ledger import ledger

        return ledger(self)


def for_json(value: Any) -> Any:
    """Return the value with floats that JSON does not know replaced by None."""
    if isinstance(value, dict):
        return {name: for_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [for_json(part) for part in value]
    if isinstance(value, np.generic):
        return for_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
