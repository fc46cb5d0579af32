"""Audit, the frozen result of an audit: its ledger, and the questions that it answers on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from epiloss._saving import SavedAsJson, SavedAsPage
from epiloss.auditing.fields import AuditFields
from epiloss.errors import OptionError
from epiloss.table import Table

if TYPE_CHECKING:
    from epiloss.auditing.equal_rows import EqualRows
    from epiloss.auditing.verdict import Verdict
    from epiloss.metrics.result import Metrics
    from epiloss.presentation.plot.grouping import GroupingDisplay
    from epiloss.repair import RegionRecalibrator
    from epiloss.repair.evaluate import RepairResult
    from epiloss.segments.result import Segments


@dataclass(frozen=True)
class Audit(AuditFields, SavedAsJson, SavedAsPage):
    """How far a classifier's probabilities are from the truth, and where.

    The ledger adds up: ``score = calibration_loss + grouping_loss + remainder``. If the grouping loss
    is only a lower bound (``is_bound``), the remainder is the irreducible loss plus the grouping loss
    that was not found. ``print(result)`` shows the ledger; a notebook shows a card.

    Attributes
    ----------
    score, calibration_loss, grouping_loss, remainder : Estimate
        The ledger, with intervals.
    task, rule, method, recommendation : str
        What was audited, how the grouping loss was estimated, and why.
    n_samples, n_evaluated : int
        Number of rows, and number of rows that regions were evaluated on.
    uninformed : float
        The score of always predicting the base rate.
    twin_estimate, crossfit_bound : Estimate or None
        The grouping loss estimated without bins, if it was.
    partition_bound : Estimate
        The lower bound by regions: ``explained - induced``.
    plugin, bias, explained, induced : float
        The terms of that bound: ``explained = plugin - bias``, and the loss that binning induces.
    bounds : Bounds
        Limits on what single labels and bins leave unknown.
    irreducible_loss : Estimate or None
        The loss of the true probabilities; only known from repeated labels.
    level_sets, regions, histogram : Table
        The rates of level sets and regions, and the distribution of the scores.
    region_source : RegionSource
        Whether the regions were learned or given as subgroups.
    options : mapping
        The options, as plain values.
    remarks : tuple of Remark
        Notes on the data and the result; each has a ``code``.
    recalibrated : Audit or None
        The audit of the recalibrated scores, if ``recalibrate=`` was given.
    subgroups : mapping of str to Audit
        The audit for each column of ``subgroups=``.
    smallest_detectable : float or None
        The smallest grouping loss that this audit would detect with 80% power; None if a row has
        several scores, or if the grouping loss was not estimated without bins.
    effective_rows : float or None
        Kish's effective number of rows; None without weights.
    influence, details
        The influence of each row on the losses, and the rows with their regions; not saved.

    See Also
    --------
    audit, audit_table : run an audit.
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

    @property
    def verdict(self) -> Verdict:
        """The recommended action, as a keyword (``verdict.kind``) and a sentence (``str(verdict)``).

        The kinds are "fine", "small", "borderline", "unclear", "recalibrate", "repair",
        "recalibrate-and-repair" and "leak".
        """
        from epiloss.auditing.verdict import verdict

        return verdict(self)

    def worst_regions(self, n: int = 10, side: str | None = None) -> Table:
        """Return the regions that contribute most to the grouping loss, the worst first.

        Parameters
        ----------
        n : int
            The number of regions.
        side : {"over", "under"}, optional
            Keep only over-predicted or only under-predicted regions.

        Returns
        -------
        Table
            Rows of ``result.regions``.

        See Also
        --------
        segments : fewer and larger groups that extend over all level sets.
        """
        if side not in (None, "over", "under"):
            raise OptionError(f"side must be 'over', 'under' or None, got {side!r}.")
        deviation = self.regions["deviation"]
        here = {None: deviation == deviation, "over": deviation < 0, "under": deviation > 0}[side]
        order = np.argsort(-self.regions["cost"], kind="stable")
        return self.regions.take(order[here[order]][:n])

    @property
    def segments(self) -> Segments:
        """Groups of rows whose rates differ from those of all rows with equal scores, in words.

        They are searched for on first access.
        """
        from epiloss.auditing.on_demand import segments_of

        return segments_of(self)

    @property
    def metrics(self) -> Metrics:
        """Accuracy, AUC, calibration errors and other familiar metrics, with intervals and noise floors.

        They are computed on first access.
        """
        from epiloss.auditing.on_demand import metrics_of

        return metrics_of(self)

    @property
    def equal_rows(self) -> EqualRows | None:
        """The grouping loss of rows with equal features and score, measured without a learner.

        None if such rows are few, are copies of one another or belong to clusters, and for scoring
        rules other than the Brier score.
        """
        from epiloss.auditing.on_demand import equal_rows_of

        return equal_rows_of(self)

    @property
    def subgroup_gaps(self) -> Mapping[str, Table]:
        """A table for each column of ``subgroups=``, with one row per subgroup.

        The gap is the rate of the subgroup minus the rate of all rows with equal scores. The calibration
        and grouping loss are those within the subgroup; they are NaN for subgroups with fewer than 200
        rows and beyond the 50 largest. Empty if a row has several scores, or rows were not kept.
        """
        from epiloss.auditing.subgroups import gaps_by_column

        return gaps_by_column(self)

    def subgroup_intersections(self, *columns: str) -> Table:
        """Return the gaps of the combinations of several columns of ``subgroups=``.

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
        (computationally-identifiable) masses", ICML 2018.

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
        """Search for segments in columns other than the features; texts are split into words.

        Parameters
        ----------
        columns : data frame, mapping of columns or one column
            One value per row, in the order of the audited rows.

        Returns
        -------
        Segments
            The segments, the costliest first.

        See Also
        --------
        segments : searches in the features of the audit.
        """
        from epiloss.segments.describe import find_segments_by
        from epiloss.segments.result import NO_ROWS, Segments

        if self.details is None:
            return Segments((), note=NO_ROWS)
        problem, options = self.details.problem, self.details.options
        return find_segments_by(columns, problem, options, grouping_loss=self.grouping_loss.value)

    def plot(self, ax: Any = None, *, partition: Any = "halves", **layers: Any) -> GroupingDisplay:
        """Draw the grouping diagram: the rates of two halves of each level set around its mean.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; by default a new figure.
        partition : {"halves", "stump", "kmeans"}, Partitioner or None
            The regions to draw in each level set. "halves" splits each level set at the median of
            cross-fitted predictions, so that no row influences which half it belongs to. ``None`` draws
            the regions of the audit. Other values learn new regions.
        **layers
            Options of :meth:`epiloss.GroupingDisplay.plot`.

        Returns
        -------
        GroupingDisplay
            The display, with all artists and arrays.

        Examples
        --------
        With matplotlib::

            result.plot(partition="stump").figure_.savefig("diagram.png")
        """
        from epiloss.presentation.plot.grouping import GroupingDisplay

        return GroupingDisplay.from_audit(self, partition=partition).plot(ax, **layers)

    def repair(self, recalibrator: RegionRecalibrator | None = None, part: float = 0.5) -> RepairResult:
        """Fit a repair on a part of the rows, and audit the others before and after it.

        Parameters
        ----------
        recalibrator : RegionRecalibrator, optional
            The repair to fit; by default the boosted one.
        part : float
            Fraction of the rows used for fitting.

        Returns
        -------
        RepairResult
            Both audits, their differences, and the repair. It uses subgroups unless X has no names.

        See Also
        --------
        RegionRecalibrator : the same without an audit.

        References
        ----------
        Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
        neural networks", ICLR 2023.

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
        """Return the cost, for each row, of acting on its score instead of the best prediction.

        The best prediction is learned from the features and the score with five-fold cross-fitting.
        Defer the rows with the largest excess risk to a better model, and those with the largest risk
        to an expert.

        Parameters
        ----------
        cost_fp, cost_fn : float, optional
            The costs of a false positive and a false negative. If only one is given, the other is 1,
            and the risk is the cost of acting on scores of at least ``cost_fp / (cost_fp + cost_fn)``.
            If neither is given, the risk is the loss of the scoring rule.

        Returns
        -------
        Table
            ``row``, ``score``, ``prediction``, ``risk`` and ``excess_risk``, in the order of the rows;
            for an audit of files, the rows of the sample.

        See Also
        --------
        epiloss.regret : the mean over all rows, with intervals.
        repair : corrects the scores.

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
        self, prefix: str = "epiloss", *, run_id: str | None = None, client: Any = None, step: int = 0
    ) -> str:
        """Log losses, options, verdict and report to an MLflow run.

        Each loss is a metric ``prefix/loss``, with ``_stderr``, ``_low``, ``_high`` and ``_pvalue`` if
        they are known.

        Parameters
        ----------
        prefix : str
            Prefix of the names of metrics and parameters.
        run_id : str, optional
            The run to log to; by default the active one.
        client, step : mlflow.MlflowClient and int, optional
            The client, and the step of the metrics.

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
        """Return everything but the rows as plain Python values; non-finite numbers become None.

        Returns
        -------
        dict
            The attributes by name, and the version of the schema.
        """
        from epiloss.auditing.plain_values import plain_audit

        return plain_audit(self)

    def __str__(self) -> str:
        from epiloss.auditing.ledger import ledger

        return ledger(self)
