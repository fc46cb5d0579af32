"""The one call that ties the rooms together."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from epiloss._models import described
from epiloss._random import RandomState, seed_of, stream
from epiloss._threads import limited_threads
from epiloss._typing import Floats
from epiloss.auditing.options import check_arrays, check_options
from epiloss.auditing.result import Audit
from epiloss.auditing.summary import summarise
from epiloss.calibration.curves import CurveFitter, resolve_curve
from epiloss.calibration.recalibrators import resolve_recalibrator
from epiloss.errors import DataError, OptionError
from epiloss.estimation.crossfit.learners import resolve_learner
from epiloss.estimation.crossfit.run import crossfit, crossfit_recalibrated
from epiloss.estimation.partition_bound import evaluate, evaluate_recalibrated
from epiloss.estimation.planning import Plan
from epiloss.estimation.repeated_labels import check_for_ratings, read_ratings, with_ratings
from epiloss.input.checks import read_problem
from epiloss.input.problem import OneClassError, Problem
from epiloss.input.row_display import Display, read_display
from epiloss.input.subgroups import groups_or_sensitive
from epiloss.input.tasks import BinaryProblem, binary_problems, score_sums
from epiloss.partition import resolve_partition
from epiloss.scoring import ScoringRule, resolve_rule


@limited_threads()
def audit(
    y_true: Any,
    y_prob: Any,
    X: Any = None,
    *,
    task: str | None = None,
    rule: str | ScoringRule = "brier",
    bins: int | Sequence[float] = 15,
    binning: str = "uniform",
    partition: Any = "tree",
    region_ratio: float = 12,
    groups: Any = None,
    sensitive_features: Any = None,
    curve: str | CurveFitter | Callable[[Floats], Floats] | None = None,
    method: str = "auto",
    learner: Any = None,
    split: float = 0.5,
    swap: bool = True,
    repeats: int = 1,
    recalibrate: Any = None,
    sample_weight: Any = None,
    clusters: Any = None,
    drop_missing: bool = False,
    logits: bool = False,
    adjust: str = "benjamini-hochberg",
    pos_label: Any = None,
    classes: Sequence[Any] | None = None,
    level: float = 0.95,
    display: Any = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    row_id: str | None = None,
    engine: Any = "local",
    memory: int | float | str = "2GB",
    checkpoint: str | os.PathLike[str] | None = None,
) -> Audit:
    """Tell how far the probabilities ``y_prob`` are from the truth behind the labels ``y_true``.

    The score is split into calibration loss, a lower bound on the grouping loss, and a remainder.

    Data beyond memory are files or a table ``X`` whose columns the other arguments name:
    ``audit("label", "score", "logs/*.parquet")``. They are read in passes, and only a sample is kept.

    Parameters
    ----------
    y_true : array-like (n,) or (n, r), or a column's name
        Labels: numbers, booleans or strings; or one-hot rows. Several labels a row for one score,
        NaN where one is missing, measure the grouping loss from both sides.
    y_prob : array-like (n,) or (n, K), or names of columns
        Probabilities of the positive class, or of each class.
    X : array-like (n, d), data frame or mapping of columns, optional
        Features or embeddings in which regions of different rates are sought. Where ``y_true`` is a
        column's name: files (a path, a folder, a pattern, several), a pyarrow, pandas, polars, duckdb,
        Hugging Face, dask or Spark table, of which the columns without another use are features.
    task : {"binary", "top-label", "classwise", "joint"}, optional
        What a prediction claims. By default binary, and top-label for more than two classes.
    rule : {"brier", "log"} or ScoringRule
        The proper scoring rule.
    bins, binning : int or edges, {"uniform", "quantile"}
        Level sets of the score.
    partition : {"tree", "stump", "kmeans"} or object with ``fit(X, y)`` and ``apply``/``predict``
        How regions are learned inside each level set.
    region_ratio : float
        Learning rows per region of a tree; the paper's tables use 30.
    groups : array-like (n,), optional
        Regions that you know already (sex, hospital): no split is made, every row is evaluated.
    sensitive_features : array-like (n,) or (n, k), data frame or mapping of columns, optional
        Fairlearn's word for ``groups``; the groups of several columns are their combinations.
    curve : {"local-linear", "isotonic", "lowess", "nearest"} or callable, optional
        The calibration curve, score -> probability.
    method : {"auto", "crossfit", "partition"}
        The lower bound on the grouping loss that leads the ledger: what the regions explain; or a
        cross-fitted one without bins, which uses all rows; or, by default, the latter where there
        is one. The partition's terms and regions are given with each.
    learner : regressor, optional
        What the cross-fitted bound predicts with from features and score, with ``fit(X, y)`` and
        ``predict``. Any gives a lower bound, a good one a tight bound. By default a blend of ridge
        regressions and boosted trees.
    split, swap, repeats : float, bool, int
        The part of the rows that learns; whether the halves then change places; how many splits
        are averaged.
    recalibrate : {"isotonic", "sigmoid"} or object with ``fit``/``predict``, optional
        Also audit the scores recalibrated on the rows that learn: ``result.recalibrated``.
    sample_weight : array-like (n,), optional
        Weights of the rows.
    clusters : array-like (n,), optional
        Patients, users: rows of one cluster may depend on each other. They are never split between
        learning and evaluating, and standard errors are by cluster.
    drop_missing : bool
        Leave out rows without a score or a label, and say how many; by default they are an error.
    logits : bool
        The scores are logits: the logistic function, or softmax for several columns, makes them
        probabilities.
    adjust : {"benjamini-hochberg", "max"}
        How the regions' p-values are adjusted for their number.
    pos_label : label, optional
        The positive class of a binary task; by default the last label in order. One column of
        scores needs it where labels are texts.
    classes : sequence, optional
        The class of each column of ``y_prob``; by default the labels in order.
    level : float
        The level of intervals.
    display : array-like (n,), data frame or images, optional
        What to show of a row in reports: an identifier, a text, several columns; image files as
        ``pathlib.Path``, or images (n, height, width[, 3]).
    random_state : int, Generator or RandomState, optional
        The one source of randomness.
    n_jobs : int, optional
        Threads for the trees, also inside a large level set, or processes for files (-1: all cores);
        the result does not depend on it.
    features, exclude : sequences of names, optional
        The columns of files or tables that are features, or that are none.
    row_id : name, optional
        A column that tells rows apart; by default they are told apart by score and features.
    engine : {"local", "memory", "dask", "spark", "ray"}, address, dask Client or SparkSession
        Where files and tables are read; the result does not depend on it.
    memory : int or str
        What the audit of files and tables may take: it bounds the sample that is kept.
    checkpoint : path, optional
        A folder for what passes over files have counted so far, from which a run that was killed
        goes on.

    Examples
    --------
    >>> import epiloss
    >>> from epiloss.simulate import Sigmoid
    >>> sample = Sigmoid(perturbation="step").sample(5_000)
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X)
    >>> bool(result.grouping_loss.value > 0.02), bool(abs(result.calibration_loss.value) < 0.002)
    (True, True)
    """
    check_options(split=split, repeats=repeats, level=level, method=method, adjust=adjust, n_jobs=n_jobs)
    scoring = resolve_rule(rule)
    seed = seed_of(random_state)
    plan = Plan(
        bins=int(bins) if isinstance(bins, np.integer) else bins,
        binning=binning,
        partitioner=resolve_partition(partition, region_ratio),
        curve=resolve_curve(curve),
        split=split,
        swap=swap,
        repeats=int(repeats),
        recalibrate=recalibrate,
        n_jobs=None if n_jobs is None else int(n_jobs),
        learner=resolve_learner(learner),
    )
    if learner is not None and method == "partition":
        raise OptionError(
            "learner is for the cross-fitted bound: use it with method='auto' or 'crossfit'."
        )
    resolve_recalibrator(recalibrate)  # a wrong option is told before any work
    options = {
        "bins": np.asarray(bins).tolist(),
        "binning": binning,
        "partition": plan.partitioner.name,
        "region_ratio": region_ratio,
        "curve": type(plan.curve).__name__,
        "split": split,
        "swap": swap,
        "repeats": repeats,
        "recalibrate": None if recalibrate is None else str(recalibrate),
        "method": method,
        "learner": None if learner is None else described(learner),
        "adjust": adjust,
        "level": level,
        "random_state": seed,
    }
    groups = groups_or_sensitive(groups, sensitive_features)
    of_rows = {"task": task, "groups": groups, "sample_weight": sample_weight, "clusters": clusters}
    of_rows |= {"drop_missing": drop_missing, "logits": logits}
    if isinstance(y_true, str):
        from epiloss.streaming.run import audit_stream, named_columns

        of_rows |= {"features": features, "exclude": exclude, "row_id": row_id, "display": display}
        of_rows |= {"pos_label": pos_label, "classes": classes}
        columns = named_columns(X, label=y_true, scores=y_prob, **of_rows)
        return audit_stream(
            X, columns, plan, scoring, options, engine=engine, memory=memory, checkpoint=checkpoint
        )
    check_arrays(
        X,
        features=features is None,
        exclude=not exclude,
        row_id=row_id is None,
        engine=isinstance(engine, str) and engine == "local",
        memory=isinstance(memory, str) and memory == "2GB",
        checkpoint=checkpoint is None,
    )
    ratings = read_ratings(y_true, y_prob, pos_label)
    if ratings is not None:
        check_for_ratings(scoring, recalibrate, drop_missing=drop_missing)
        y_true, pos_label = ratings.drawn(stream(seed, "drawn labels")), None
    try:
        of_rows |= {"pos_label": pos_label, "classes": classes}
        problem = read_problem(y_true, y_prob, X, leave_out_names=True, **of_rows)
    except OneClassError as error:
        raise scored(error, plan, scoring) from None
    options["classes"] = [str(name) for name in problem.classes]
    result = measured(problem, plan, scoring, options, read_display(display, problem))
    if ratings is None:
        return result
    return with_ratings(result, ratings, problem, level=level, generator=stream(seed, "ratings"))


def scored(error: OneClassError, plan: Plan, rule: ScoringRule) -> DataError:
    """Return the error with the score, which one class is enough for."""
    assert error.problem is not None  # which rows in memory are
    total, weight = score_sums(binary_problems(error.problem, rule))
    return error.scored(rule.name, total / weight)


def measured(
    problem: Problem,
    plan: Plan,
    rule: ScoringRule,
    options: Mapping[str, Any],
    display: Display | None,
) -> Audit:
    """Evaluate the scores as they are and, if asked for, recalibrated."""
    seed, level = options["random_state"], options["level"]
    options = {**options, "partition": regions_named(problem, plan)}
    binaries = binary_problems(problem, rule)
    crossfits = [] if options["method"] == "partition" else binaries
    after = None
    if plan.recalibrate is not None:
        after = recalibrated_audit(problem, binaries, plan, rule, options)
    evaluations = [evaluate(one, plan, seed) for one in binaries]
    bounds = [crossfit(one, plan, seed, level) for one in crossfits]
    return summarise(problem, rule, evaluations, bounds, options, after, plan, display)


def recalibrated_audit(
    problem: Problem,
    binaries: Sequence[BinaryProblem],
    plan: Plan,
    rule: ScoringRule,
    options: Mapping[str, Any],
) -> Audit:
    """Evaluate the scores recalibrated."""
    seed, level = options["random_state"], options["level"]
    crossfits = [] if options["method"] == "partition" else binaries
    again = [evaluate_recalibrated(one, plan, seed) for one in binaries]
    bounds = [crossfit_recalibrated(one, plan, seed, level) for one in crossfits]
    return summarise(problem, rule, again, bounds, options, None, plan)


def repartitioned(result: Audit, partition: Any, **changes: Any) -> Audit:
    """Return the same audit with other regions; ``changes`` are further parts of the plan.

    The ledger stays: only the level sets' and regions' tables are those of the new partition.
    """
    if result.evidence is None or result.evidence.problem.features is None:
        return result
    evidence, options = result.evidence, dict(result.options)
    partitioner = resolve_partition(partition, options["region_ratio"])
    plan = replace(evidence.plan, partitioner=partitioner, **changes)
    seed = options["random_state"]
    problem = evidence.problem
    again = [evaluate(one.problem, plan, seed) for one in evidence.evaluations]
    options |= {"partition": regions_named(problem, plan), **changes}
    other = summarise(problem, evidence.rule, again, [], {**options, "method": "partition"}, None, plan)
    return replace(
        result,
        level_sets=other.level_sets,
        regions=other.regions,
        options=options,
        evidence=None if other.evidence is None else replace(other.evidence, display=evidence.display),
    )


def regions_named(problem: Problem, plan: Plan) -> str:
    """Say what the regions are."""
    if problem.groups is not None:
        return "groups"
    return "level set" if problem.features is None else plan.partitioner.name
