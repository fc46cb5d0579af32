"""Audit: the frozen result of an audit, what can be asked of it, and the bounds beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from epiloss._progress import working
from epiloss._saving import SCHEMA, SavedAsJson, SavedAsPage, for_json
from epiloss.errors import OptionError, Remark
from epiloss.estimate import Estimate
from epiloss.estimation.influence import Influence
from epiloss.input.problem import RegionSource
from epiloss.table import Table

if TYPE_CHECKING:
    from epiloss.auditing.equal_rows import EqualRows
    from epiloss.auditing.row_details import RowDetails
    from epiloss.auditing.verdict import Verdict
    from epiloss.metrics.result import Metrics
    from epiloss.presentation.plot.grouping import GroupingDisplay
    from epiloss.repair import RegionRecalibrator
    from epiloss.repair.evaluate import RepairResult
    from epiloss.segments.result import Segments

# under which the details keep what was searched for, and measured
_SEGMENTS, _METRICS = "result.segments", "result.metrics"
_EQUAL_ROWS = "result.equal_rows"


@dataclass(frozen=True)
class Bounds:
    """What cannot be seen from single labels and bins.

    Attributes
    ----------
    grouping_loss_high : float
        Upper limit of the grouping loss, ``E[e(C)]``: the only one that needs no assumption.
    binning_low, binning_high : float or None
        Without a calibration curve, binning could shift the sum of calibration and grouping loss by
        between these; for the Brier score.
    epistemic_loss_low : float or None
        What the sum of both is at least, therefore; for the Brier score.

    See Also
    --------
    Audit : has them as ``result.bounds``.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid().sample(2_000)
    >>> bounds = epiloss.audit(sample.y, sample.scores).bounds
    >>> bool(bounds.binning_low <= bounds.binning_high <= bounds.grouping_loss_high)
    True
    """

    grouping_loss_high: float
    binning_low: float | None = None
    binning_high: float | None = None
    epistemic_loss_low: float | None = None


@dataclass(frozen=True)
class Audit(SavedAsJson, SavedAsPage):
    """How far a classifier's probabilities are from the truth, and where.

    The ledger adds up: ``score = calibration_loss + grouping_loss + remainder``. Where the grouping
    loss is a lower bound (``is_bound``), the remainder is the irreducible loss and what was not seen.
    ``print(result)`` shows the ledger, and a notebook shows a card.

    Attributes
    ----------
    score, calibration_loss, grouping_loss, remainder : Estimate
        The ledger, with intervals.
    task, rule, method, recommendation : str
        What was audited, how the grouping loss is estimated, and why so.
    n_samples, n_evaluated : int
        Number of rows, and of those that evaluate regions.
    uninformed : float
        The score of always predicting the base rate.
    twin_estimate, crossfit_bound : Estimate or None
        The grouping loss without bins, where it was estimated.
    partition_bound : Estimate
        The lower bound by regions: ``explained - induced``.
    plugin, bias, explained, induced : float
        The terms of that bound: ``explained = plugin - bias``, and the loss that binning induces.
    bounds : Bounds
        What cannot be seen from single labels and bins.
    irreducible_loss : Estimate or None
        Known from repeated labels only.
    level_sets, regions, histogram : Table
        Rates of level sets and regions, and the distribution of the scores.
    region_source : RegionSource
        Whether regions were learned or given.
    options : mapping
        The options, as plain values.
    remarks : tuple of Remark
        Notes on the data and the result; each has a ``code``.
    recalibrated : Audit or None
        The audit of the recalibrated scores, with ``recalibrate=``.
    subgroups : mapping of str to Audit
        The audit by each column of ``subgroups=``.
    smallest_detectable : float or None
        The grouping loss that this audit would have found with 80% power; None for several scores per
        row, and where the grouping loss is not estimated without bins.
    effective_rows : float or None
        The number of rows of equal weight that tell as much (Kish); None without weights.
    influence, details
        What each row adds to the losses, and the rows with their regions; not saved.

    See Also
    --------
    audit, audit_table : return it.
    compare : several models on the same rows.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(3_000)
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X)
    >>> total = result.calibration_loss.value + result.grouping_loss.value + result.remainder.value
    >>> bool(abs(result.score.value - total) < 1e-12), result.is_bound, bool(result.at_least > 0.01)
    (True, False, True)
    >>> len(result.worst_regions(3)), len(result.segments_by(sample.X[:, 0] > sample.X[:, 1]))
    (3, 1)
    >>> result.to_dict()["n_samples"], result.to_html()[:15]
    (3000, '<!DOCTYPE html>')
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
    twin_estimate: Estimate | None
    irreducible_loss: Estimate | None  # known from repeated labels only
    level_sets: Table = field(repr=False)
    regions: Table = field(repr=False)
    histogram: Table = field(repr=False)
    region_source: RegionSource
    options: Mapping[str, Any] = field(repr=False)
    remarks: tuple[Remark, ...] = ()
    recalibrated: Audit | None = field(default=None, repr=False)
    # the audit by each column of subgroups, by its name
    subgroups: Mapping[str, Audit] = field(default_factory=dict, repr=False)
    # the grouping loss that would have been found with 80% power
    smallest_detectable: float | None = None
    # rows of equal weight that tell as much as the weighted ones; None without weights
    effective_rows: float | None = None
    # of each row, or cluster, on each loss: what compares audits of the same rows; not written out
    influence: Mapping[str, Influence] = field(default_factory=dict, repr=False, compare=False)
    # the rows and their regions, from which more is told when asked; not written out
    details: RowDetails | None = field(default=None, repr=False, compare=False)

    @property
    def is_bound(self) -> bool:
        """Whether the grouping loss is a lower bound: not by twin learners or repeated labels."""
        return self.twin_estimate is None and self.irreducible_loss is None

    @property
    def at_least(self) -> float | None:
        """The one-sided lower limit of the grouping loss; None without a standard error."""
        loss = self.grouping_loss
        if loss.stderr is None:
            return None
        return max(loss.value - float(ndtri(self.confidence_level)) * loss.stderr, 0.0)

    @property
    def without_bins(self) -> Estimate | None:
        """The grouping loss without bins, by twin learners or cross-fitted; None without either."""
        return self.crossfit_bound if self.twin_estimate is None else self.twin_estimate

    @property
    def confidence_level(self) -> float:
        """The level of all intervals."""
        return float(self.options["confidence_level"])

    @property
    def verdict(self) -> Verdict:
        """What to do, in a word (``verdict.kind``) and in a sentence (``str(verdict)``).

        The kinds are "fine", "small", "borderline", "unclear", "recalibrate", "repair",
        "recalibrate-and-repair" and "leak".
        """
        from epiloss.auditing.verdict import verdict

        return verdict(self)

    def worst_regions(self, n: int = 10, side: str | None = None) -> Table:
        """Return the regions that add most to the grouping loss, the worst first.

        Parameters
        ----------
        n : int
            The number of regions.
        side : {"over", "under"}, optional
            Only over-predicted regions, whose rates are below those of rows with equal scores, or only
            under-predicted ones.

        Returns
        -------
        Table
            Rows of ``result.regions``.

        See Also
        --------
        segments : fewer and larger groups, found over all scores together.
        """
        if side not in (None, "over", "under"):
            raise OptionError(f"side must be 'over', 'under' or None, got {side!r}.")
        deviation = self.regions["deviation"]
        here = {None: deviation == deviation, "over": deviation < 0, "under": deviation > 0}[side]
        order = np.argsort(-self.regions["cost"], kind="stable")
        return self.regions.take(order[here[order]][:n])

    @property
    def segments(self) -> Segments:
        """The few groups of rows, in words, whose rates differ from those of rows with equal scores.

        The search starts when this is first used.
        """
        from epiloss.segments.result import NO_ROWS, Segments
        from epiloss.segments.tell import find_segments

        details = self.details
        if details is None:
            return Segments((), note=NO_ROWS)
        if _SEGMENTS not in details.views:
            with working("searching for segments", details.options.verbose):
                details.views[_SEGMENTS] = find_segments(
                    details.problem,
                    details.options,
                    grouping_loss=self.grouping_loss.value,
                    display=details.display,
                )
        found: Segments = details.views[_SEGMENTS]
        return found

    @property
    def metrics(self) -> Metrics:
        """Familiar numbers: accuracy, AUC, calibration errors, each with its interval and noise floor.

        They are computed when first asked for.
        """
        from epiloss.metrics.measure import measure_audited, not_measured

        details = self.details
        if details is None:
            return not_measured("The rows of this audit were not kept: run it again for its metrics.")
        if details.options.recalibrate is not None and self.recalibrated is None:
            return not_measured(
                "Each fold has recalibrated scores of its own: audit them by themselves."
            )
        if _METRICS not in details.views:
            drawn = self.irreducible_loss is not None
            details.views[_METRICS] = measure_audited(
                details.problem, details.options, n_rows=self.n_samples, drawn=drawn
            )
        found: Metrics = details.views[_METRICS]
        return found

    @property
    def equal_rows(self) -> EqualRows | None:
        """The grouping loss of rows with equal features and score, measured without a learner.

        None where such rows are few, copies of one another, or kept in clusters, and for other rules
        than the Brier score.
        """
        from epiloss.auditing.equal_rows import equal_rows

        details = self.details
        if details is None or self.irreducible_loss is not None:
            return None
        if _EQUAL_ROWS not in details.views:
            influence = None if self.is_bound else self.influence.get("grouping_loss")
            details.views[_EQUAL_ROWS] = equal_rows(
                details.problem, details.options, self.grouping_loss, influence
            )
        found: EqualRows | None = details.views[_EQUAL_ROWS]
        return found

    @property
    def subgroup_gaps(self) -> Mapping[str, Table]:
        """For each column of subgroups, a table with one row for each of its values.

        The gap is the rate of a value less the rate of all rows with equal scores. The calibration and
        grouping loss are those inside the value, NaN below 200 rows and beyond the 50 largest values.
        Empty for several scores per row, and where the rows were not kept.
        """
        from epiloss.auditing.subgroups import gaps_by_column

        return gaps_by_column(self)

    def subgroup_intersections(self, *columns: str) -> Table:
        """Return the same table for the combinations of several columns of subgroups.

        Parameters
        ----------
        *columns : str
            Columns of ``subgroups=``; by default all of them.

        Returns
        -------
        Table
            One row for each combination that occurs. P-values are adjusted for their number.

        See Also
        --------
        subgroup_gaps : each column by itself.

        References
        ----------
        Hebert-Johnson, Kim, Reingold and Rothblum, "Multicalibration: calibration for the
        (computationally-identifiable) masses", ICML 2018: scores that are right in every one of many
        groups that overlap.

        Examples
        --------
        >>> import epiloss
        >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(2_000)
        >>> halves = {"a": sample.X[:, 0] > 0, "b": sample.X[:, 1] > 0}
        >>> result = epiloss.audit(sample.y, sample.scores, subgroups=halves)
        >>> result.subgroup_intersections("a", "b")["subgroup"].tolist()[:2]
        ['a=False, b=False', 'a=False, b=True']
        """
        from epiloss.auditing.subgroups import gaps_of_intersections

        return gaps_of_intersections(self, columns)

    def segments_by(self, columns: Any) -> Segments:
        """Search for segments in other columns than the features; texts are split into words.

        Parameters
        ----------
        columns : data frame, mapping of columns or one column
            In the order of the rows.

        Returns
        -------
        Segments
            The segments, the one that costs most first.

        See Also
        --------
        segments : by the features of the audit.
        """
        from epiloss.segments.result import NO_ROWS, Segments
        from epiloss.segments.tell import find_segments_by

        if self.details is None:
            return Segments((), note=NO_ROWS)
        problem, options = self.details.problem, self.details.options
        return find_segments_by(columns, problem, options, grouping_loss=self.grouping_loss.value)

    def plot(self, ax: Any = None, *, partition: Any = "halves", **layers: Any) -> GroupingDisplay:
        """Draw the grouping diagram: in each level set, the rows predicted higher and lower.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        partition : {"halves", "stump", "kmeans"}, Partitioner or None
            What is drawn in each level set. By default two halves, by predictions that are cross-fitted,
            so that no row chose its own half. ``None`` draws the audit's own regions, and anything else
            the regions that it learns.
        **layers
            Options of :meth:`epiloss.GroupingDisplay.plot`.

        Returns
        -------
        GroupingDisplay
            The diagram, with everything that is drawn.

        Examples
        --------
        With matplotlib::

            result.plot(partition="stump").figure_.savefig("diagram.png")
        """
        from epiloss.presentation.plot.grouping import GroupingDisplay

        return GroupingDisplay.from_audit(self, partition=partition).plot(ax, **layers)

    def repair(self, recalibrator: RegionRecalibrator | None = None, part: float = 0.5) -> RepairResult:
        """Learn a repair on a part of the rows, and audit the others before and after it.

        Parameters
        ----------
        recalibrator : RegionRecalibrator, optional
            What to learn; by default the boosted repair.
        part : float
            Fraction of the rows that learn.

        Returns
        -------
        RepairResult
            Both audits, their differences with intervals, and the repair.

        See Also
        --------
        RegionRecalibrator : the same without an audit.

        References
        ----------
        Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
        neural networks", ICLR 2023: recalibration by the score alone leaves the grouping loss as it is.

        Examples
        --------
        >>> import epiloss
        >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(3_000)
        >>> repaired = epiloss.audit(sample.y, sample.scores, sample.X).repair()
        >>> bool(repaired.differences["grouping_loss"].value < -0.01)
        True
        """
        from epiloss.repair.evaluate import repair_audit

        return repair_audit(self, recalibrator, part)

    def excess_risk(self, *, cost_fp: float | None = None, cost_fn: float | None = None) -> Table:
        """Return, for each row, what acting on its score instead of the best prediction costs.

        The best prediction is learned from features and score, in five folds: no row is judged by a
        model that saw it. Defer the rows of the largest excess risk to a better model, and those of the
        largest risk to somebody who knows.

        Parameters
        ----------
        cost_fp, cost_fn : float, optional
            What a false positive and a false negative cost. With either, the other is 1 by default,
            and the risk is the cost of acting where the score is at least
            ``cost_fp / (cost_fp + cost_fn)``. Without both it is the loss of the scoring rule.

        Returns
        -------
        Table
            In the order of the rows: ``row``, ``score``, ``prediction``, ``risk`` and ``excess_risk``.
            Of a file, the rows of its sample.

        See Also
        --------
        epiloss.regret : the mean over all rows, with intervals.
        repair : learns to correct the scores.

        References
        ----------
        Perez-Lebel, Le Morvan and Varoquaux, "Decision from suboptimal classifiers: excess risk pre- and
        post-calibration", AISTATS 2025.

        Examples
        --------
        >>> import epiloss
        >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(4_000)
        >>> found = epiloss.audit(sample.y, sample.scores, sample.X).excess_risk()
        >>> true_excess = (sample.scores - sample.q) ** 2
        >>> deferred = np.argsort(-found["excess_risk"])[:400]
        >>> bool(true_excess[deferred].mean() > 1.3 * true_excess.mean())
        True
        """
        from epiloss.repair.excess_risk import excess_risk

        return excess_risk(self, cost_fp, cost_fn)

    def _page(self, **about: Any) -> str:
        from epiloss.presentation.report import audit_page

        return audit_page(self, **about)

    def log_to_mlflow(
        self,
        prefix: str = "epiloss",
        *,
        run_id: str | None = None,
        client: Any = None,
        step: int = 0,
    ) -> str:
        """Log losses, options, verdict and report into an MLflow run.

        Each loss is a metric ``prefix/loss``, with ``_stderr``, ``_low``, ``_high`` and ``_pvalue``
        where they are known.

        Parameters
        ----------
        prefix : str
            What names of metrics and parameters begin with.
        run_id : str, optional
            The run; by default the active one.
        client : mlflow.MlflowClient, optional
            By default ``mlflow.MlflowClient()``.
        step : int
            The step of the metrics.

        Returns
        -------
        str
            The id of the run.

        Examples
        --------
        With mlflow::

            with mlflow.start_run():
                result.log_to_mlflow("validation")
        """
        from epiloss.integrations.mlflow import log_audit

        return log_audit(self, prefix, run_id=run_id, client=client, step=step)

    def _repr_html_(self) -> str:
        from epiloss.presentation.report import audit_card

        return audit_card(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values; what is not finite becomes None.

        Returns
        -------
        dict
            By the names of the attributes, with the number of its schema.
        """
        metrics = self.metrics.to_dict()
        finite: dict[str, Any] = for_json({"schema": SCHEMA, **self._plain(), "metrics": metrics})
        return finite

    def _plain(self) -> dict[str, Any]:
        """Return everything but the metrics, which audits by subgroup share with this one."""
        plain = {
            name: value.to_dict() if isinstance(value, Estimate | Table) else value
            for name, value in vars(self).items()
            if name not in ("influence", "details")
        }
        plain["verdict"] = dict(vars(self.verdict))
        plain["bounds"] = dict(vars(self.bounds))
        plain["options"] = dict(self.options)
        plain["region_source"] = self.region_source.value
        plain["remarks"] = [remark.to_dict() for remark in self.remarks]
        plain["subgroups"] = {
            name: {"schema": SCHEMA, **one._plain()} for name, one in self.subgroups.items()
        }
        plain["subgroup_gaps"] = {name: one.to_dict() for name, one in self.subgroup_gaps.items()}
        plain["segments"] = self.segments.to_dict()
        equal_rows = self.equal_rows
        plain["equal_rows"] = None if equal_rows is None else equal_rows.to_dict()
        plain["recalibrated"] = self.recalibrated.to_dict() if self.recalibrated else None
        return plain

    def __str__(self) -> str:
        from epiloss.auditing.ledger import ledger

        return ledger(self)
