"""Compute all metrics that apply to a task, with their titles and intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from epiloss._threads import limited_threads
from epiloss._typing import Codes, Floats
from epiloss.calibration.level_sets import quantile_level_sets, uniform_level_sets
from epiloss.estimate import Estimate
from epiloss.estimation.inference import normal_estimate
from epiloss.estimation.options import DEFAULTS, Options
from epiloss.input.problem import Problem
from epiloss.input.tasks import binary_problems
from epiloss.metrics import ranking
from epiloss.metrics.binned import Bins, debiased_ece, ece, largest_gap
from epiloss.metrics.ranking import ValueAndInfluence
from epiloss.metrics.regression import (
    calibration_intercept,
    calibration_slope,
    curve_errors,
    observed_expected,
)
from epiloss.metrics.result import LeftOutError, Metric, Metrics, NoiseFloor
from epiloss.metrics.rows import ScoredRows, on_scale
from epiloss.metrics.smooth import smooth_ece
from epiloss.scoring import Brier

Found = tuple[Estimate, NoiseFloor | None]

NORMAL = "normal, from influence values"
_LOGIT = "normal on the logit scale, from influence values"
INVERTED = "for the error without noise, by inverting a simulated test"
_ROOT = "square root of a Feldman-Cousins interval of the squared error"
INTERVALS = {
    "accuracy": "Wilson",
    "auc": "DeLong, normal on the logit scale",
    "average_precision": _LOGIT,
    "brier_skill_score": NORMAL,
    "log_loss": NORMAL,
    "ece_equal_width": INVERTED,
    "ece_equal_mass": INVERTED,
    "ece_debiased": _ROOT,
    "maximum_calibration_error": INVERTED,
    "smooth_ece": INVERTED,
    "calibration_slope": NORMAL,
    "calibration_intercept": NORMAL,
    "observed_expected": "normal on the log scale, from influence values",
    "ici": INVERTED,
    "e50": INVERTED,
    "e90": INVERTED,
}
_TITLES = {
    "accuracy": "Accuracy",
    "auc": "AUC",
    "average_precision": "Average precision",
    "brier_skill_score": "Brier skill score",
    "log_loss": "Log-loss",
    "ece_equal_width": "ECE, {width} bins of equal width",
    "ece_equal_mass": "ECE, {mass} bins of equal mass",
    "ece_debiased": "ECE, debiased, root mean square, {mass} bins of equal mass",
    "maximum_calibration_error": "Maximum calibration error, {width} bins of equal width",
    "smooth_ece": "Smooth ECE",
    "calibration_slope": "Calibration slope",
    "calibration_intercept": "Calibration intercept",
    "observed_expected": "Observed / expected",
    "ici": "ICI, mean distance from the calibration curve",
    "e50": "E50, median distance from the calibration curve",
    "e90": "E90, 90% quantile of the distance from the calibration curve",
}
_SINGLE_SCORE_ONLY = (
    "maximum_calibration_error", "smooth_ece", "calibration_slope", "calibration_intercept",
    "observed_expected", "ici", "e50", "e90",
)  # fmt: skip
_NEEDS_ONE_SCORE = (
    "defined for a single probability: use task='top-label', or audit one class as a binary task"
)
_STREAM = 1_000  # spawn key of the metrics, which no other random stream of the seed uses


@limited_threads()
def measure(
    problem: Problem,
    *,
    n_bins: int = 15,
    level: float = 0.95,
    seed: int = 0,
    notes: tuple[str, ...] = (),
) -> Metrics:
    """Return all metrics that apply to a task, with intervals and noise floors.

    Examples
    --------
    >>> from epiloss.input.checks import read_problem
    >>> from epiloss.input.problem import Reading
    >>> from epiloss.simulate import Sigmoid
    >>> sample = Sigmoid(perturbation="step").sample(5_000)
    >>> metrics = measure(read_problem(sample.y, sample.scores, None, Reading()))
    >>> print(metrics["observed_expected"])
    Observed / expected: 0.9931 [0.9778, 1.0087]
    """
    calculator = _OneScore if problem.task in ("binary", "top-label") else _Classes
    source = calculator(problem, n_bins, level, seed)
    found, left_out = {}, {}
    for name in _TITLES:
        try:
            estimate, floor = source.find(name)
        except LeftOutError as reason:
            left_out[name] = str(reason)
            continue
        how = "" if estimate.low is None else INTERVALS[name]
        found[name] = Metric(name, source.title(name), estimate, how, floor, source.subject)
    if "log_loss" in found and np.isinf(found["log_loss"].value):
        n_impossible = int((source.likelihood == 0).sum())
        rows = "row has an outcome" if n_impossible == 1 else "rows have outcomes"
        notes = (*notes, f"The log-loss is infinite: {n_impossible:,} {rows} of probability 0.")
    return Metrics(found, source.subject, len(problem.labels), level, left_out, notes)


def measure_audited(problem: Problem, options: Options, *, n_rows: int, drawn: bool) -> Metrics:
    """Return the metrics of the audited rows, which may be a sample of ``n_rows`` rows.

    ``drawn`` says whether one label of each row was drawn at random from its ratings.
    """
    n_bins = options.n_bins if isinstance(options.n_bins, int) else DEFAULTS["n_bins"]
    notes = []
    if len(problem.labels) < n_rows:
        notes.append(f"Computed on a sample of {len(problem.labels):,} of {n_rows:,} rows.")
    if drawn:
        notes.append("The label of each row was drawn at random from its ratings.")
    level, seed = options.confidence_level, options.seed
    return measure(problem, n_bins=n_bins, level=level, seed=seed, notes=tuple(notes))


def not_measured(reason: str) -> Metrics:
    """Return an empty set of metrics, with the reason why it is empty."""
    return Metrics({}, left_out=dict.fromkeys(_TITLES, reason), notes=(reason,))


@dataclass(frozen=True)
class _Source:
    """Computes the metrics of a problem; subclasses differ by task."""

    problem: Problem
    n_bins: int
    level: float
    seed: int

    def generator(self, name: str) -> np.random.Generator:
        """Return the metric's own random stream, so that its value does not depend on other metrics."""
        key = (_STREAM, list(_TITLES).index(name))
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))

    def rows_of(self, scores: Floats, labels: Floats) -> ScoredRows:
        """Return scores and labels with the problem's weights and clusters."""
        return ScoredRows(scores, labels, self.problem.weights, self.problem.clusters)

    @cached_property
    def correct(self) -> Floats:
        """1 for correctly classified rows, 0 for others."""
        problem = self.problem
        if problem.task == "binary":
            positive = problem.labels == problem.positive
            return np.asarray((problem.scores > 0.5) == positive, float)
        top = problem.scores.argmax(axis=1) if problem.claimed is None else problem.claimed
        return np.asarray(problem.labels == top, float)

    @cached_property
    def weighted_rows(self) -> ScoredRows:
        """Rows of which only the weights and clusters are used."""
        return self.rows_of(self.correct, self.correct)

    @property
    def likelihood(self) -> Floats:
        """The probability of each row's outcome."""
        return _class_likelihood(self.problem)

    def find(self, name: str) -> Found:
        """Return a metric's estimate with interval, and its noise floor if it has one."""
        raise NotImplementedError

    @property
    def subject(self) -> str:
        """The probability that the metrics evaluate."""
        raise NotImplementedError

    def title(self, name: str) -> str:
        """Return the title shown for a metric."""
        raise NotImplementedError

    def accuracy(self) -> Found:
        return ranking.accuracy(self.weighted_rows, self.correct, self.level), None

    def log_loss(self) -> Found:
        """Return the mean of -log of the probability of the outcome."""
        with np.errstate(divide="ignore"):
            losses = -np.log(self.likelihood)
        return self.estimated(ranking.mean_loss(self.weighted_rows, losses))

    def estimated(self, found: ValueAndInfluence, scale: str | None = None) -> Found:
        """Return an estimate with its interval from a value and its influence values."""
        value, stderr = found[0], self.weighted_rows.stderr(found[1])
        if scale is None:
            return normal_estimate(value, stderr, self.level), None
        return on_scale(value, stderr, self.level, scale), None


@dataclass(frozen=True)
class _OneScore(_Source):
    """Metrics of a binary task, or of the confidence in the top label."""

    @cached_property
    def rows(self) -> ScoredRows:
        one = binary_problems(self.problem, Brier())[0]
        return self.rows_of(one.scores, one.labels)

    @cached_property
    def by_width(self) -> Bins:
        return Bins.of(self.rows, uniform_level_sets(self.n_bins))

    @cached_property
    def by_mass(self) -> Bins:
        rows = self.rows
        return Bins.of(rows, quantile_level_sets(rows.scores, self.n_bins, rows.weights))

    @cached_property
    def curve(self) -> dict[str, tuple[Estimate, NoiseFloor]]:
        return dict(curve_errors(self.rows, self.level, self.generator("ici")))

    @property
    def subject(self) -> str:
        problem = self.problem
        if problem.task == "binary":
            return f"probability of {problem.classes[problem.positive]!s}"
        return f"confidence in the {'top' if problem.claimed is None else 'claimed'} label"

    def title(self, name: str) -> str:
        title = _TITLES[name].format(width=self.n_bins, mass=len(self.by_mass.gap))
        if self.problem.task == "binary":
            return f"{title} (score above 0.5)" if name == "accuracy" else title
        if name in ("auc", "average_precision"):
            return f"{title}, correct against incorrect labels"
        if name in ("log_loss", "brier_skill_score") and self._all_classes:
            return f"{title}, all classes"
        return title

    @property
    def _all_classes(self) -> bool:
        return self.problem.task != "binary" and self.problem.claimed is None

    def find(self, name: str) -> Found:
        metrics: dict[str, Callable[[], Found]] = {
            "accuracy": self.accuracy,
            "auc": lambda: self.estimated(ranking.auc(self.rows), "logit"),
            "average_precision": lambda: self.estimated(ranking.average_precision(self.rows), "logit"),
            "brier_skill_score": self._brier_skill,
            "log_loss": self.log_loss,
            "ece_equal_width": lambda: ece(self.by_width, self.level, self.generator(name)),
            "ece_equal_mass": lambda: ece(self.by_mass, self.level, self.generator(name)),
            "ece_debiased": lambda: debiased_ece(self.by_mass, self.level, self.generator(name)),
            "maximum_calibration_error": lambda: largest_gap(
                self.by_width, self.level, self.generator(name)
            ),
            "smooth_ece": lambda: smooth_ece(self.rows, self.level, self.generator(name)),
            "calibration_slope": lambda: (calibration_slope(self.rows, self.level), None),
            "calibration_intercept": lambda: (calibration_intercept(self.rows, self.level), None),
            "observed_expected": lambda: (observed_expected(self.rows, self.level), None),
        }
        return metrics[name]() if name in metrics else self.curve[name]

    def _brier_skill(self) -> Found:
        if self._all_classes:
            return self.estimated(_class_skill(self.weighted_rows, self.problem))
        rows = self.rows
        losses = (rows.scores - rows.labels) ** 2
        return self.estimated(ranking.brier_skill(rows, losses, rows.labels[:, None]))

    @property
    def likelihood(self) -> Floats:
        """The probability of each row's outcome: its class, or whether the label is correct."""
        if self._all_classes:
            return super().likelihood
        rows = self.rows
        return np.where(rows.labels == 1, rows.scores, 1 - rows.scores)


@dataclass(frozen=True)
class _Classes(_Source):
    """Metrics of all classes; metrics that are defined for one class are averaged over classes."""

    @property
    def subject(self) -> str:
        return f"probabilities of all {len(self.problem.classes)} classes"

    def title(self, name: str) -> str:
        title = _TITLES[name].format(width=self.n_bins, mass=self.n_bins)
        if name == "accuracy":
            return f"{title} (top label)"
        over = "mean over classes" if name in _MEANS_OVER_CLASSES else "all classes"
        return f"{title}, {over}"

    def classes(self) -> Iterator[ScoredRows]:
        """Yield the rows of each class: its score, and 1 where it is the true class."""
        for k in range(len(self.problem.classes)):
            scores = np.ascontiguousarray(self.problem.scores[:, k])
            yield self.rows_of(scores, (self.problem.labels == k).astype(float))

    @cached_property
    def by_width(self) -> Bins:
        return Bins.joined([Bins.of(rows, uniform_level_sets(self.n_bins)) for rows in self.classes()])

    @cached_property
    def by_mass(self) -> Bins:
        return Bins.joined(
            [
                Bins.of(rows, quantile_level_sets(rows.scores, self.n_bins, rows.weights))
                for rows in self.classes()
            ]
        )

    def find(self, name: str) -> Found:
        if name in _SINGLE_SCORE_ONLY:
            raise LeftOutError(_NEEDS_ONE_SCORE)
        metrics: dict[str, Callable[[], Found]] = {
            "accuracy": self.accuracy,
            "auc": lambda: self.estimated(self._mean(ranking.auc), "logit"),
            "average_precision": lambda: self.estimated(self._mean(ranking.average_precision), "logit"),
            "brier_skill_score": lambda: self.estimated(_class_skill(self.weighted_rows, self.problem)),
            "log_loss": self.log_loss,
            "ece_equal_width": lambda: ece(self.by_width, self.level, self.generator(name)),
            "ece_equal_mass": lambda: ece(self.by_mass, self.level, self.generator(name)),
            "ece_debiased": lambda: debiased_ece(self.by_mass, self.level, self.generator(name)),
        }
        return metrics[name]()

    def _mean(self, metric: Callable[[ScoredRows], ValueAndInfluence]) -> ValueAndInfluence:
        """Return the mean over classes of a one-vs-rest metric."""
        n, total, total_influence = len(self.problem.classes), 0.0, np.zeros(len(self.problem.labels))
        for name, rows in zip(self.problem.classes, self.classes(), strict=True):
            if not rows.labels.any():
                raise LeftOutError(f"no row has the label {name!s}")
            value, influence = metric(rows)
            total += value / n
            total_influence += influence / n
        return total, total_influence


_MEANS_OVER_CLASSES = ("auc", "average_precision", "ece_equal_width", "ece_equal_mass", "ece_debiased")


def _class_skill(rows: ScoredRows, problem: Problem) -> ValueAndInfluence:
    indicators = _indicators(problem.labels, len(problem.classes))
    losses = ((problem.scores - indicators) ** 2).sum(axis=1)
    return ranking.brier_skill(rows, losses, indicators)


def _class_likelihood(problem: Problem) -> Floats:
    return np.take_along_axis(problem.scores, problem.labels[:, None], axis=1)[:, 0]


def _indicators(labels: Codes, n_classes: int) -> Floats:
    return np.asarray(labels[:, None] == np.arange(n_classes), float)
