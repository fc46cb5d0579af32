"""The repair of scores, as a scikit-learn estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

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
    """Correct scores by their features, which recalibration by the score alone cannot do.

    Parameters
    ----------
    method : {"boosted", "regions"}
        "boosted": ridge regressions and boosted trees predict a correction of the log-odds. This is
        usually more accurate. "regions": trees divide each level set into regions, and the rate of each
        region is shrunk towards that of its level set. This is easier to explain.
    region_ratio : float
        For "regions": the number of learning rows per region.
    repeats : int
        For "regions": the number of random splits into rows that learn regions and rows that learn
        rates.
    rounds : int
        For "regions": the largest number of rounds, each of which corrects the errors left by the
        rounds before.
    learner : regressor, optional
        For "boosted": a regressor to use instead of ridge regressions and trees.
    rule : {"brier", "log"} or ScoringRule
        The score that a correction must improve on held-out rows.
    random_state, n_jobs
        As in :func:`epiloss.audit`.

    See Also
    --------
    Audit.repair : fits a repair on one part of the rows and evaluates it on the others.
    RegionRecalibratedClassifier : a classifier with its repair.
    load_repair : loads a saved repair.

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
        """Fit the repair to labels, scores and features.

        Parameters
        ----------
        y_true, y_prob, X, sample_weight, pos_label, classes, drop_missing, logits
            As in :func:`epiloss.audit`.
        clusters : array-like of shape (n,), optional
            Rows of one cluster are never split between learning and evaluation.

        Returns
        -------
        RegionRecalibrator
            The fitted repair.
        """
        shape = score_numbers(y_prob).shape
        n_columns = 1 if len(shape) == 1 else shape[1]
        task = "binary" if n_columns <= 2 else "classwise"
        reading = Reading(task, pos_label, classes, drop_missing, logits)
        rows = {"sample_weight": sample_weight, "clusters": clusters}
        return self.fit_problem(read_problem(y_true, y_prob, X, reading, **rows))

    def fit_problem(self, problem: Problem) -> RegionRecalibrator:
        """Fit the repair to rows that are already checked; used inside the package.

        Parameters
        ----------
        problem : Problem
            The checked rows.

        Returns
        -------
        RegionRecalibrator
            The fitted repair.

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
                "X must have at least one column for a repair, got none. Without features, recalibrate "
                "by the score."
            )
        generator = np.random.default_rng(seed_of(self.random_state))
        self.features_in_ = problem.features.description()
        self.classes_ = np.array(problem.classes)
        self.positive_ = problem.positive
        units = (problem.weights, problem.clusters)
        rows = [Rows(problem.features, *one, *units) for one in _binary_scores(problem)]
        self.repairs_ = fit_repairs(rows, plan, generator)
        return self

    def predict(self, y_prob: Any, X: Any, *, logits: bool = False) -> Floats:
        """Return the repaired scores.

        Parameters
        ----------
        y_prob : array-like of shape (n,) or (n, K)
            The classifier's scores.
        X : array-like of shape (n, d) or data frame
            The columns that the repair was fitted to. Other columns are ignored.
        logits : bool
            Whether the scores are logits.

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
                f"y_prob and X must have equally many rows, got {len(given)} and {features.n_rows}. "
                "Pass the features of the same rows."
            )
        if places is None:
            return repaired_scores(self.repairs_, self.positive_, features, given)
        better = repaired_scores(self.repairs_, self.positive_, features, given[:, places])
        return np.ascontiguousarray(
            better[:, np.argsort(places)]
        )  # back in the order of the given columns

    def save(self, path: str | Path) -> None:
        """Save the repair as JSON, which :func:`epiloss.load_repair` reads.

        Parameters
        ----------
        path : str or Path
            The file to write.
        """
        save_repair(self, path)

    def _plan(self) -> RepairPlan:
        if self.method not in ("regions", "boosted"):
            raise OptionError(f"method must be 'boosted' or 'regions', got {self.method!r}.")
        if self.learner is not None and self.method != "boosted":
            raise OptionError(
                f"learner needs method='boosted', got method={self.method!r}, which always uses trees. "
                "Leave out learner."
            )
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
    """Load a repair that ``RegionRecalibrator.save`` has written; no code in the file is executed.

    Parameters
    ----------
    path : str or Path
        The file to read.

    Returns
    -------
    RegionRecalibrator
        The repair, whose predictions are the same to the last bit.

    See Also
    --------
    RegionRecalibrator : fits and saves a repair.

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


def _binary_scores(problem: Problem) -> list[tuple[Floats, Floats]]:
    """Return the scores and outcomes of the positive class, or of every class."""
    if problem.task == "binary":
        return [(problem.scores, (problem.labels == problem.positive).astype(float))]
    return [
        (np.ascontiguousarray(problem.scores[:, k]), (problem.labels == k).astype(float))
        for k in range(len(problem.classes))
    ]


@limited_threads()
def repaired_scores(
    repairs: list[BinaryRepair], positive: int, features: Features, scores: Floats
) -> Floats:
    """Return repaired scores; those of several classes are normalised to sum to one."""
    if len(repairs) == 1:
        if scores.ndim == 1:
            return repairs[0].predict(features, scores)
        better = repairs[0].predict(features, np.ascontiguousarray(scores[:, positive]))
        return np.stack([1 - better, better] if positive == 1 else [better, 1 - better], axis=1)
    if scores.ndim != 2 or scores.shape[1] != len(repairs):
        raise DataError(
            f"scores must have a column for each of the {len(repairs)} classes that the repair was "
            f"fitted to, got shape {scores.shape}. Pass the scores of all classes."
        )
    columns = [
        one.predict(features, np.ascontiguousarray(scores[:, k])) for k, one in enumerate(repairs)
    ]
    better = np.stack(columns, axis=1)
    total = better.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, better / np.where(total > 0, total, 1.0), scores), float)
