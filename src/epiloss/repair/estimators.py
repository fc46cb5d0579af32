"""Repairs as scikit-learn estimators: of scores, or behind a classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from epiloss._models import fresh
from epiloss._random import seed_of
from epiloss._threads import limited_threads
from epiloss._typing import Floats
from epiloss.errors import DataError, OptionError
from epiloss.estimation.crossfit.learners import Regressor, resolve_learner
from epiloss.input.arrays import read_scores, score_numbers
from epiloss.input.checks import read_problem
from epiloss.input.class_columns import places_of_classes, score_names
from epiloss.input.features import Features
from epiloss.input.problem import Problem, Reading
from epiloss.repair.base import BinaryRepair
from epiloss.repair.fitting import RepairPlan, Rows, fit_repairs
from epiloss.repair.saved import read_repair, save_repair
from epiloss.scoring import resolve_rule


class RegionRecalibrator(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Corrects scores by region, where recalibration by the score alone cannot.

    Parameters
    ----------
    method : {"boosted", "regions"}
        "boosted": ridge regressions and boosted trees predict what to add to the log-odds; usually
        nearer to the truth. "regions": trees inside level sets, each region's rate shrunk towards that
        of its level set; every correction is the rate of some region.
    region_ratio : float
        Learning rows per region.
    repeats : int
        How many times rows are divided into those that learn regions and those that learn rates.
    rounds : int
        How many times, at most, regions are sought in what the ones before have left.
    learner : regressor, optional
        For "boosted": your own in place of ridge and trees.
    rule : {"brier", "log"} or ScoringRule
        The score that must improve on rows left out.
    random_state, n_jobs
        As in :func:`epiloss.audit`.

    See Also
    --------
    Audit.repair : learns a repair on one part of the rows and measures it on the others.
    RegionRecalibratedClassifier : a classifier with its repair.
    load_repair : reads a saved repair.

    References
    ----------
    Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
    neural networks", ICLR 2023.

    Examples
    --------
    >>> from epiloss.simulate import Sigmoid
    >>> problem = Sigmoid(perturbation="step")
    >>> sample, fresh = problem.sample(4_000), problem.sample(4_000, random_state=1)
    >>> repair = RegionRecalibrator().fit(sample.y, sample.scores, sample.X)
    >>> better = repair.predict(fresh.scores, fresh.X)
    >>> bool(np.mean((better - fresh.q) ** 2) < 0.3 * np.mean((fresh.scores - fresh.q) ** 2))
    True
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     repair.save(f"{folder}/repair.json")
    """

    def __init__(
        self,
        method: str = "boosted",
        *,
        region_ratio: float = 30,
        repeats: int = 3,
        rounds: int = 3,
        learner: Any = None,
        rule: Any = "brier",
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.method = method
        self.region_ratio = region_ratio
        self.repeats = repeats
        self.rounds = rounds
        self.learner = learner
        self.rule = rule
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        y_true: Any,
        y_prob: Any,
        X: Any,
        *,
        sample_weight: Any = None,
        clusters: Any = None,
        pos_label: Any = None,
        classes: Any = None,
        drop_missing: bool = False,
        logits: bool = False,
    ) -> RegionRecalibrator:
        """Learn from labels, the scores that some classifier gave, and features.

        Parameters
        ----------
        y_true, y_prob, X, sample_weight, pos_label, classes, drop_missing, logits
            As in :func:`epiloss.audit`.
        clusters : array-like of shape (n,), optional
            Rows of one cluster are never divided between learning and evaluation.

        Returns
        -------
        RegionRecalibrator
            Itself.
        """
        shape = score_numbers(y_prob).shape
        n_columns = 1 if len(shape) == 1 else shape[1]
        task = "binary" if n_columns <= 2 else "classwise"
        reading = Reading(task, pos_label, classes, drop_missing, logits)
        rows = {"sample_weight": sample_weight, "clusters": clusters}
        return self.fit_problem(read_problem(y_true, y_prob, X, reading, **rows))

    def fit_problem(self, problem: Problem) -> RegionRecalibrator:
        """Learn from rows that are checked already; for the package itself.

        Parameters
        ----------
        problem : Problem
            The checked rows.

        Returns
        -------
        RegionRecalibrator
            Itself.

        Examples
        --------
        >>> from epiloss.simulate import Sigmoid
        >>> sample = Sigmoid(perturbation="step").sample(1_000)
        >>> problem = read_problem(sample.y, sample.scores, sample.X, Reading("binary"))
        >>> RegionRecalibrator("regions").fit_problem(problem).classes_.tolist()
        [0, 1]
        """
        plan = self._plan()
        if problem.features is None:
            raise DataError(
                "X must have at least one column for a repair. Without features, recalibrate by the "
                "score."
            )
        generator = np.random.default_rng(seed_of(self.random_state))
        self.features_in_ = problem.features.description()
        self.classes_ = np.array(problem.classes)
        self.positive_ = problem.positive
        rows = (problem.weights, problem.clusters)
        scores = [Rows(problem.features, *one, *rows) for one in _one_by_one(problem)]
        self.repairs_ = fit_repairs(scores, plan, generator)
        return self

    def predict(self, y_prob: Any, X: Any, *, logits: bool = False) -> Floats:
        """Return the repaired scores.

        Parameters
        ----------
        y_prob : array-like of shape (n,) or (n, K)
            The classifier's scores.
        X : array-like of shape (n, d) or data frame
            The columns that the repair learned from; others, such as identifiers, are ignored.
        logits : bool
            The scores are logits.

        Returns
        -------
        array of the shape of ``y_prob``
            Repaired probabilities.
        """
        if not hasattr(self, "repairs_"):
            raise OptionError("this repair is not fitted yet. Call fit(y_true, y_prob, X) first.")
        given = read_scores(y_prob, logits=logits)
        places = places_of_classes(score_names(y_prob), self.classes_.tolist())
        features = Features.read(X, self.features_in_)
        if features.n_rows != len(given):
            raise DataError(
                f"y_prob and X must have one row each, got {len(given)} and {features.n_rows} rows."
            )
        if places is None:
            return repaired(self.repairs_, self.positive_, features, given)
        better = repaired(self.repairs_, self.positive_, features, given[:, places])
        return np.ascontiguousarray(better[:, np.argsort(places)])  # in the order of the columns

    def save(self, path: str | Path) -> None:
        """Write the repair as plain JSON, which :func:`epiloss.load_repair` reads.

        Parameters
        ----------
        path : str or Path
            The file to write.
        """
        save_repair(self, path)

    def _plan(self) -> RepairPlan:
        if self.method not in ("regions", "boosted"):
            raise OptionError(f"method must be 'regions' or 'boosted', got {self.method!r}.")
        if self.learner is not None and self.method != "boosted":
            raise OptionError("learner needs method='boosted': regions are learned by trees.")
        for name in ("repeats", "rounds"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 1, got {getattr(self, name)!r}.")
        learner = None if self.learner is None else resolve_learner(self.learner)
        assert learner is None or isinstance(learner, Regressor)
        return RepairPlan(
            self.method,
            resolve_rule(self.rule),
            self.region_ratio,
            int(self.repeats),
            int(self.rounds),
            learner,
            self.n_jobs,
        )


def load_repair(path: str | Path) -> RegionRecalibrator:
    """Read a repair that ``RegionRecalibrator.save`` has written; nothing in the file is run.

    Parameters
    ----------
    path : str or Path
        The file to read.

    Returns
    -------
    RegionRecalibrator
        A repair that predicts the same bits.

    See Also
    --------
    RegionRecalibrator : learns and saves a repair.

    Examples
    --------
    >>> import tempfile
    >>> from epiloss.simulate import Sigmoid
    >>> sample = Sigmoid(perturbation="step").sample(1_000)
    >>> repair = RegionRecalibrator("regions").fit(sample.y, sample.scores, sample.X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     repair.save(f"{folder}/repair.json")
    ...     again = load_repair(f"{folder}/repair.json")
    >>> better = (one.predict(sample.scores, sample.X) for one in (repair, again))
    >>> bool(np.array_equal(*better))
    True
    """
    return read_repair(path, RegionRecalibrator())


def _one_by_one(problem: Problem) -> list[tuple[Floats, Floats]]:
    """Return the scores and outcomes of the positive class, or of each class."""
    if problem.task == "binary":
        return [(problem.scores, (problem.labels == problem.positive).astype(float))]
    return [
        (np.ascontiguousarray(problem.scores[:, k]), (problem.labels == k).astype(float))
        for k in range(len(problem.classes))
    ]


@limited_threads()
def repaired(repairs: list[BinaryRepair], positive: int, features: Features, scores: Floats) -> Floats:
    """Return repaired scores; those of several classes sum to one again."""
    if len(repairs) == 1:
        if scores.ndim == 1:
            return repairs[0].predict(features, scores)
        better = repairs[0].predict(features, np.ascontiguousarray(scores[:, positive]))
        return np.stack([1 - better, better] if positive == 1 else [better, 1 - better], axis=1)
    if scores.ndim != 2 or scores.shape[1] != len(repairs):
        raise DataError(
            f"scores must have a column for each of the {len(repairs)} classes that the repair was "
            f"fitted to, got shape {scores.shape}."
        )
    columns = [
        one.predict(features, np.ascontiguousarray(scores[:, k])) for k, one in enumerate(repairs)
    ]
    better = np.stack(columns, axis=1)
    total = better.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, better / np.where(total > 0, total, 1.0), scores), float)


class RegionRecalibratedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose probabilities are repaired by region.

    Parameters
    ----------
    estimator : classifier
        With ``predict_proba``.
    recalibrator : RegionRecalibrator, optional
        The repair to learn; by default the boosted one.
    cv : int or "prefit"
        The repair is learned on scores of rows that the classifier has not seen, in so many parts. With
        "prefit" the classifier is fitted already, on rows of its own.
    random_state : int, Generator or RandomState, optional
        The one source of randomness.

    See Also
    --------
    RegionRecalibrator : repairs scores.
    sklearn.calibration.CalibratedClassifierCV : recalibrates by the score alone.

    References
    ----------
    Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
    neural networks", ICLR 2023.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(1_000, noise=0.3, random_state=0)
    >>> model = RegionRecalibratedClassifier(LogisticRegression()).fit(X, y)
    >>> model.predict_proba(X).shape, model.predict(X).shape
    ((1000, 2), (1000,))
    """

    def __init__(
        self, estimator: Any, *, recalibrator: Any = None, cv: Any = 5, random_state: Any = 0
    ) -> None:
        self.estimator = estimator
        self.recalibrator = recalibrator
        self.cv = cv
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that sparse features are taken where the classifier takes them."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags

    def fit(self, X: Any, y: Any) -> RegionRecalibratedClassifier:
        """Fit the classifier, and the repair on scores of rows it has not seen.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.
        y : array-like of shape (n,)
            Classes.

        Returns
        -------
        RegionRecalibratedClassifier
            Itself.
        """
        y = _checked_target(y)
        seed = seed_of(self.random_state)
        if self.cv == "prefit":
            self.estimator_ = self.estimator
            scores = self.estimator_.predict_proba(X)
        else:
            from sklearn.model_selection import StratifiedKFold, cross_val_predict

            cv = StratifiedKFold(self.cv, shuffle=True, random_state=seed % 2**32)
            model = fresh(self.estimator, seed % 2**31)
            scores = cross_val_predict(model, X, y, cv=cv, method="predict_proba")
            self.estimator_ = model.fit(X, y)
        self.classes_ = self.estimator_.classes_
        for told in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, told):
                setattr(self, told, getattr(self.estimator_, told))
        recalibrator = RegionRecalibrator() if self.recalibrator is None else self.recalibrator
        self.recalibrator_ = fresh(recalibrator, seed % 2**31)
        self.recalibrator_.fit(y, scores, X, classes=list(self.classes_))
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the repaired probabilities of each class.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        array of shape (n, K)
            In the order of ``classes_``.
        """
        check_is_fitted(self)
        return np.asarray(self.recalibrator_.predict(self.estimator_.predict_proba(X), X), float)

    def predict(self, X: Any) -> Any:
        """Return the class of the largest repaired probability.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        array of shape (n,)
            Classes.
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]


def _checked_target(y: Any) -> Any:
    """Return one class for each row, or say what is there instead."""
    if y is None:
        raise DataError("the classifier requires y to be passed, but the target y is None.")
    column = column_or_1d(y, warn=True)
    assert_all_finite(column, input_name="y")
    check_classification_targets(column)
    return column
