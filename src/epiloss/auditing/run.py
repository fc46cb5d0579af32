"""The audit of rows in memory: reading, evaluation and summary in one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from epiloss._progress import stage, working
from epiloss._random import RandomState, stream
from epiloss._threads import limited_threads
from epiloss._typing import Floats
from epiloss.auditing.ratings import check_for_ratings, with_ratings
from epiloss.auditing.result import Audit
from epiloss.auditing.summary import summarise
from epiloss.calibration.class_recalibrators import RecalibratedTogether
from epiloss.calibration.curves import CurveFitter
from epiloss.errors import DataError, OptionError
from epiloss.estimation.crossfit.bound import CrossfitBound
from epiloss.estimation.crossfit.run import (
    crossfit,
    crossfit_recalibrated,
    with_subgroups_as_feature,
)
from epiloss.estimation.options import Options
from epiloss.estimation.partition_bound import evaluate, evaluate_recalibrated
from epiloss.estimation.repeated_labels import read_ratings
from epiloss.input.checks import read_problem
from epiloss.input.problem import OneClassError, Problem
from epiloss.input.row_display import Display, read_display
from epiloss.input.tasks import BinaryProblem, binary_problems, score_sums
from epiloss.scoring import ScoringRule


@limited_threads()
def audit(
    y_true: Any,
    y_prob: Any,
    X: Any = None,
    *,
    task: str | None = None,
    rule: str | ScoringRule = "brier",
    method: str = "twin",
    subgroups: Any = None,
    sample_weight: Any = None,
    clusters: Any = None,
    recalibrate: Any = None,
    n_bins: int | Sequence[float] = 15,
    strategy: str = "uniform",
    partition: Any = "tree",
    curve: str | CurveFitter | Callable[[Floats], Floats] | None = None,
    learner: Any = None,
    split: float = 0.5,
    repeats: int = 1,
    adjust: str = "benjamini-hochberg",
    confidence_level: float = 0.95,
    tolerance: float = 0.01,
    pos_label: Any = None,
    classes: Sequence[Any] | None = None,
    drop_missing: bool = False,
    logits: bool = False,
    display: Any = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    verbose: bool | None = None,
) -> Audit:
    """Decompose a classifier's score into calibration loss, grouping loss and remainder.

    The calibration loss is what a recalibration of the scores could remove. The grouping loss is the
    error that remains among rows with equal scores; it is estimated on held-out rows.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, r)
        Labels: numbers, booleans or strings; or one-hot rows. With several labels per row for one
        score (NaN for missing ones), the grouping loss is measured instead of bounded.
    y_prob : array-like of shape (n,) or (n, K)
        Probabilities of the positive class, or of each class. Columns of a data frame whose names
        contain the classes, such as ``P(yes)`` and ``P(no)``, are matched by name.
    X : array-like of shape (n, d), sparse matrix, data frame or mapping of columns, optional
        Features or embeddings, in which regions with different rates are searched for. Data frames
        may have columns of categories, dates, sparse values or lists of numbers (embeddings). Torch
        tensors and tables that Arrow can read (pyarrow, polars, duckdb) are also accepted.
    task : {"binary", "top-label", "classwise", "joint"}, optional
        Which probabilities are audited. By default "binary", or "top-label" for more than two classes.
    rule : {"brier", "log"} or ScoringRule
        The proper scoring rule.
    method : {"twin", "crossfit", "partition", "paper"}
        How the grouping loss in the ledger is estimated. "twin": by twin learners, a conservative
        estimate that is biased downwards only by what the learners miss. "crossfit": by a cross-fitted
        lower bound. Neither needs bins. "partition": by the regions of a partition. "paper": the same
        with the settings of the paper (one split, 30 learning rows per region). The terms and regions of
        the partition are part of every result. They are also the headline if the first two methods are
        not possible: without ``X`` and ``subgroups``, for the task "joint", and below 100 rows.
    subgroups : str, list of str, array-like of shape (n,) or (n, k), data frame or mapping, optional
        Known groups, such as sex or hospital: names of columns of ``X``, or one value per row. Each
        column is audited separately, in ``result.subgroups``. Without ``X``, their combinations are the
        regions, and the learners of ``method`` use them as a feature.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows.
    clusters : array-like of shape (n,), optional
        Clusters of dependent rows, such as patients or users (scikit-learn's ``groups``). A cluster is
        never split between learning and evaluation, and standard errors are clustered.
    recalibrate : {"isotonic", "sigmoid", "temperature", "beta", "vector"} or object, optional
        Also audit the scores after recalibration on the learning rows, as ``result.recalibrated``. With
        several classes, "temperature" and "vector" recalibrate all scores jointly, the others each score
        separately. An object must have ``fit`` and ``predict``.
    n_bins : int or sequence of edges
        Number of level sets of the score, at most the number of rows; or their edges.
    strategy : {"uniform", "quantile"}
        Whether level sets have equal width or equal mass.
    partition : {"tree", "stump", "kmeans"}, Partitioner or estimator
        How regions are learned within each level set; see :mod:`epiloss.partition` for options such as
        ``Tree(region_ratio=30)``. An estimator must have ``fit(X, y)`` and ``apply`` or ``predict``.
    curve : {"local-linear", "isotonic", "lowess", "nearest"} or callable, optional
        The calibration curve, score -> probability.
    learner : regressor, optional
        Predicts the residuals of the labels from features and score, with ``fit(X, y)`` and ``predict``.
        The estimate is conservative for any learner, and close to the truth for a good one. By default a
        ridge regression and boosted trees.
    split : float
        Fraction of rows used for learning regions; the two parts then swap roles.
    repeats : int
        Number of random divisions of the rows to average over.
    adjust : {"benjamini-hochberg", "max"}
        How the p-values of regions are adjusted for multiple testing.
    confidence_level : float
        Confidence level of the intervals.
    tolerance : float
        Losses matter if they reach this fraction of the score of always predicting the base rate.
    pos_label : label, optional
        The positive class of a binary task; by default the last label in sorted order. It is required
        for one column of scores with string labels.
    classes : sequence, optional
        The class of each column of ``y_prob``; by default by their names, or the labels in sorted order.
    drop_missing : bool
        Leave out rows without a score or a label, and report how many; by default they are an error.
    logits : bool
        Whether the scores are logits. They are converted to probabilities with the logistic function,
        or softmax for several columns.
    display : array-like of shape (n,), data frame or images, optional
        What reports show of a row: an identifier, a text, several columns, image files as
        ``pathlib.Path``, or images of shape (n, height, width[, 3]).
    random_state : int, Generator or RandomState, optional
        The seed. The twin estimate does not depend on it, unless ``learner`` does.
    n_jobs : int, optional
        Number of threads (-1 for all cores); it does not affect the result.
    verbose : bool, optional
        Whether to show progress. By default it is shown in terminals and notebooks after a few seconds.

    Returns
    -------
    Audit
        The ledger, the tables of level sets and regions, the segments and a verdict.

    See Also
    --------
    audit_table : the same for files and tables, even larger than memory.
    compare : several models on the same rows.
    drift : one model on two data sets.

    References
    ----------
    Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
    neural networks", ICLR 2023.

    Newey and Robins, "Cross-fitting and fast remainder rates for semiparametric estimation",
    arXiv:1801.09138, 2018: separate samples for the two factors of a product, as in twin learners.

    Murphy, "A new vector partition of the probability score", Journal of Applied Meteorology 12, 1973.

    Examples
    --------
    >>> import epiloss
    >>> from epiloss.simulate import Sigmoid
    >>> sample = Sigmoid(perturbation="step").sample(5_000)
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X)
    >>> bool(result.grouping_loss.value > 0.02), bool(abs(result.calibration_loss.value) < 0.002)
    (True, True)
    >>> result.verdict.kind
    'repair'
    """
    options = Options.read(
        task=task,
        rule=rule,
        method=method,
        n_bins=n_bins,
        strategy=strategy,
        partition=partition,
        curve=curve,
        learner=learner,
        split=split,
        repeats=repeats,
        recalibrate=recalibrate,
        adjust=adjust,
        confidence_level=confidence_level,
        tolerance=tolerance,
        pos_label=pos_label,
        classes=classes,
        drop_missing=drop_missing,
        logits=logits,
        random_state=random_state,
        n_jobs=n_jobs,
        verbose=verbose,
    )
    data = {"subgroups": subgroups, "sample_weight": sample_weight, "clusters": clusters}
    return audit_rows(y_true, y_prob, X, options, display=display, **data)


def audit_rows(
    y_true: Any, y_prob: Any, X: Any, options: Options, *, display: Any = None, **data: Any
) -> Audit:
    """Audit rows in memory with resolved options; ``data`` are keywords of ``read_problem``."""
    if isinstance(y_true, str) or isinstance(X, str | os.PathLike):
        raise OptionError(
            "audit needs arrays or data frames, got a name. For files, and for columns by name, use "
            "audit_table('file.parquet', label='label', score='score')."
        )
    reading = options.reading
    ratings = read_ratings(y_true, y_prob, reading.pos_label)
    if ratings is not None:
        check_for_ratings(options)
        y_true = ratings.drawn(stream(options.seed, "drawn labels"))
        reading = replace(reading, pos_label=None)
    try:
        problem = read_problem(y_true, y_prob, X, reading, **data)
    except OneClassError as error:
        raise scored(error, options.rule) from None
    options.check_rows(len(problem.labels))
    result = audit_problem(problem, options, read_display(display, problem))
    return result if ratings is None else with_ratings(result, ratings, problem, options)


def scored(error: OneClassError, rule: ScoringRule) -> DataError:
    """Return the error with the score, which needs only one class."""
    assert error.problem is not None  # rows in memory are always attached
    total, weight = score_sums(binary_problems(error.problem, rule))
    return error.scored(rule.name, total / weight)


def audit_problem(problem: Problem, options: Options, display: Display | None = None) -> Audit:
    """Evaluate checked rows as given and, if requested, recalibrated; then each column of subgroups."""
    options.check_task(problem.task)
    binaries = binary_problems(problem, options.rule)
    after = None
    with working(f"auditing {len(problem.labels):,} rows", options.verbose):
        if options.recalibrate is not None:
            stage("recalibrated scores")
            after = recalibrated_audit(problem, binaries, options)
        stage("learning and evaluating regions")
        evaluations = [evaluate(one, options) for one in binaries]
        stage("learning without bins")
        breaks = [one.breaks for one in evaluations]
        bounds = _without_bins(binaries, options, crossfit, breaks) if options.without_bins else []
        by_subgroup = {
            name: audit_problem(problem.by_subgroup(name), replace(options, recalibrate=None))
            for name in problem.subgroups
        }
        return summarise(problem, options, evaluations, bounds, after, display, by_subgroup)


def _without_bins(
    binaries: Sequence[BinaryProblem],
    options: Options,
    estimate: Callable[..., CrossfitBound | None],
    *data: Sequence[Any],
) -> list[CrossfitBound | None]:
    """Return the estimates without bins; twin learners also use given subgroups as a feature.

    ``data`` are further arguments of ``estimate``, one per problem.
    """
    if options.method == "twin":
        binaries = [with_subgroups_as_feature(one) for one in binaries]
    return [estimate(one, options, *more) for one, *more in zip(binaries, *data, strict=True)]


def recalibrated_audit(problem: Problem, binaries: Sequence[BinaryProblem], options: Options) -> Audit:
    """Evaluate recalibrated scores, each class separately or all classes jointly."""
    together = None
    if options.recalibrates_together and problem.task != "binary":
        rows = problem.scores, problem.labels, problem.weights
        together = RecalibratedTogether(options.recalibrate, problem.classes, *rows)
    again = [evaluate_recalibrated(one, options, together) for one in binaries]
    bounds: list[CrossfitBound | None] = []
    if options.without_bins:
        estimate = partial(crossfit_recalibrated, together=together)
        bounds = _without_bins(binaries, options, estimate)
    return summarise(problem, options, again, bounds, None)
