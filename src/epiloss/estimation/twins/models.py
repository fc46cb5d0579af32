"""Models that are trained on some parts of the rows and predict ``Q - C`` for rows of other parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

import numpy as np

from epiloss._threads import ALONE, Workers
from epiloss._typing import Codes, Floats
from epiloss.calibration.breaks import Breaks
from epiloss.estimation.crossfit.learners import Fitted, Learner
from epiloss.estimation.crossfit.tilts import LogTilts, QuadraticTilts, tilts_of
from epiloss.estimation.learning.encoding import Coded, Encoding, learn_encoding
from epiloss.estimation.learning.engine import Model, fit_model
from epiloss.estimation.twins.centring import BrokenBasis, ScoreBasis, ScoreScale
from epiloss.input.features import Features
from epiloss.input.tasks import BinaryProblem
from epiloss.scoring import ScoringRule

# Calibration curves are clipped to this distance from 0 and 1, where rows would have no weight, or to a
# tenth of the rate of the rarer outcome if that is less.
_CURVE_MARGIN, _RARE_MARGIN = 0.005, 0.1
# Maximum number of scores at which a model stores its calibration curve, to bound memory.
_MAX_CURVE_POINTS = 4_096
# Neighbouring scores of a stored curve are further apart than this; otherwise its slope could overflow.
_MIN_SCORE_DISTANCE = 1e-290
# For the log-loss, a leaf must expect at least this many of the rarer outcome, because it depends on
# ratios of probabilities, which few outcomes cannot determine.
_MIN_EXPECTED_OUTCOMES = 4.0
# Predictions of ``Q - C`` are clipped to this absolute value, the largest possible one. Tighter limits
# would bias the mean of noisy predictions.
_MAX_DIFFERENCE = 1.0
# Maximum number of rows that a model is trained on, to bound the time.
MAX_TRAINING_ROWS = 80_000


@dataclass(frozen=True)
class Block:
    """Rows that a model is trained on or that models evaluate, sorted by score.

    ``coded`` are the rows as the encoding has them; for a learner passed by the user, it is None.
    """

    scores: Floats
    labels: Floats
    weights: Floats | None
    rule: ScoringRule
    features: Features
    coded: Coded | None
    basis: ScoreBasis | BrokenBasis

    @classmethod
    def of(
        cls,
        problem: BinaryProblem,
        coded: Coded | None,
        rows: Codes,
        scale: ScoreScale | None = None,
        breaks: Breaks | None = None,
    ) -> Block:
        """Return some rows of a problem, sorted by score; with a scale they may be in any order."""
        assert problem.features is not None  # twins learn from features
        own = None if coded is None else coded.take(rows)
        weights = None if problem.weights is None else problem.weights[rows]
        scores = problem.scores[rows]
        basis: ScoreBasis | BrokenBasis
        if scale is not None:
            basis = scale.basis(scores, weights)
        elif breaks is not None:
            basis = BrokenBasis.of(scores, weights, breaks)
        else:
            basis = ScoreBasis.of(scores, weights)
        features = problem.features.take(rows)
        return cls(scores, problem.labels[rows], weights, problem.rule, features, own, basis)

    @property
    def splines(self) -> ScoreBasis:
        """The basis, without breaks."""
        assert isinstance(self.basis, ScoreBasis)
        return self.basis

    def curve(self) -> Floats:
        """Return the calibration curve, estimated from these rows, at their scores."""
        base_rate = float(self.labels.mean())
        margin = min(_CURVE_MARGIN, _RARE_MARGIN * min(base_rate, 1 - base_rate)) or _CURVE_MARGIN
        curve: Floats = np.clip(self.basis.mean(self.labels[None])[0], margin, 1 - margin)
        return curve


@dataclass(frozen=True)
class Curve:
    """A calibration curve, interpolated linearly between its values at some scores."""

    scores: Floats
    values: Floats

    @classmethod
    def of(cls, block: Block, curve: Floats) -> Curve:
        """Return the curve with these values at the rows of a block."""
        starts = block.basis.starts
        points = evenly_spaced(len(starts), _MAX_CURVE_POINTS)
        starts = starts if points is None else starts[points]
        scores = block.scores[starts]
        starts = starts[np.append(True, scores[1:] - scores[:-1] > _MIN_SCORE_DISTANCE)]
        return cls(block.scores[starts], curve[starts])

    def __call__(self, scores: Floats) -> Floats:
        """Return the curve at scores."""
        return np.asarray(np.interp(scores, self.scores, self.values), float)

    def resampled(self, scores: Floats) -> Curve:
        """Return the curve that interpolates between its values at other scores, which are sorted."""
        return Curve(scores, self(scores))


class Trainer(Protocol):
    """Interface of what trains the models, all in the same way."""

    def train(self, block: Block, seed: int) -> PartModel:
        """Train a model on the rows of a block."""


class PartModel(Protocol):
    """Interface of a model trained on some parts, with the calibration curve of its training rows."""

    @property
    def curve(self) -> Curve:
        """The calibration curve."""

    def predict_stages(self, block: Block) -> Floats:
        """Return predictions of ``Q - C`` for the rows of a block (stages, rows).

        The stages are the early and the full prediction; a learner passed by the user has only one.
        """

    def predict_steps(self, block: Block) -> Floats:
        """Return predictions of the step of the log-odds from ``C`` to ``Q`` (stages, rows)."""

    def with_curve_at(self, scores: Floats) -> PartModel:
        """Return the model with its curve stored only at these scores."""


def evenly_spaced(n: int, most: int) -> Codes | None:
    """Return ``most`` evenly spaced indices below ``n``, or None if ``n`` is not larger."""
    return None if n <= most else np.linspace(0, n - 1, most).astype(np.int64)


@dataclass(frozen=True)
class DefaultTrainer:
    """Trains the default learner on codes that are found without labels and shared by all models."""

    encoding: Encoding
    max_rows: int = MAX_TRAINING_ROWS

    @classmethod
    def of(
        cls, problem: BinaryProblem, max_rows: int = MAX_TRAINING_ROWS, workers: Workers = ALONE
    ) -> tuple[DefaultTrainer, Coded]:
        """Return the trainer for a problem, and its encoded rows."""
        assert problem.features is not None  # twins learn from features
        encoding, coded = learn_encoding(problem.features, problem.scores, problem.claimed, workers)
        return cls(encoding, max_rows), coded

    def train(self, block: Block, seed: int) -> DefaultModel:
        """Train a model on a block or, if it has too many rows, on rows evenly spaced in score."""
        curve, coded, weights = block.curve(), block.coded, block.weights
        assert coded is not None
        labels, weight = block.labels, curve * (1 - curve)
        residual = labels - curve
        if weights is not None:
            weight, residual = weights * weight, weights * residual
        rows = evenly_spaced(len(labels), self.max_rows)
        if rows is not None:
            coded, residual, weight = coded.take(rows), residual[rows], weight[rows]
        is_log_loss = isinstance(tilts_of(block.rule), LogTilts)
        min_leaf_weight = _MIN_EXPECTED_OUTCOMES if is_log_loss else 0.0
        model = fit_model(self.encoding, coded, residual, weight, min_leaf_weight)
        return DefaultModel(Curve.of(block, curve), model)


@dataclass(frozen=True)
class DefaultModel:
    """A model of the default learner, which predicts steps of the log-odds."""

    curve: Curve
    model: Model

    def predict_stages(self, block: Block) -> Floats:
        """Return ``C (1 - C)`` times the early and the full prediction."""
        curve = self.curve(block.scores)
        stages: Floats = curve * (1 - curve) * self.predict_steps(block)
        return np.clip(stages, -_MAX_DIFFERENCE, _MAX_DIFFERENCE, out=stages)

    def predict_steps(self, block: Block) -> Floats:
        """Return the early and the full prediction."""
        assert block.coded is not None
        return self.model.predict_stages(block.coded)

    def with_curve_at(self, scores: Floats) -> DefaultModel:
        """Return the model with its curve stored only at these scores."""
        return replace(self, curve=self.curve.resampled(scores))


@dataclass(frozen=True)
class CustomTrainer:
    """Trains copies of a learner passed by the user."""

    learner: Learner
    max_rows: int = MAX_TRAINING_ROWS

    def train(self, block: Block, seed: int) -> CustomModel:
        """Train a copy on a block or, if it has too many rows, on rows evenly spaced in score."""
        curve = block.curve()
        features, scores, weights = block.features, block.scores, block.weights
        residual = block.labels - curve
        rows = evenly_spaced(len(scores), self.max_rows)
        if rows is not None:
            features, scores, residual = features.take(rows), scores[rows], residual[rows]
            weights = None if weights is None else weights[rows]
        model = self.learner.fit(features, scores, residual, weights, seed)
        return CustomModel(Curve.of(block, curve), model)


@dataclass(frozen=True)
class CustomModel:
    """A trained copy of a learner passed by the user, which predicts ``Q - C``."""

    curve: Curve
    model: Fitted

    def predict_stages(self, block: Block) -> Floats:
        """Return the prediction, as the only stage."""
        return self.model.predict(block.features, block.scores)[None]

    def predict_steps(self, block: Block) -> Floats:
        """Return the prediction divided by ``C (1 - C)``, which is the step to first order."""
        curve = self.curve(block.scores)
        steps: Floats = self.predict_stages(block) / (curve * (1 - curve))
        return steps

    def with_curve_at(self, scores: Floats) -> CustomModel:
        """Return the model with its curve stored only at these scores."""
        return replace(self, curve=self.curve.resampled(scores))


def trainer_for(
    problem: BinaryProblem,
    learner: Learner | None,
    max_rows: int = MAX_TRAINING_ROWS,
    workers: Workers = ALONE,
) -> tuple[Trainer, Coded | None]:
    """Return the trainer for a problem and its encoded rows, None for the user's learner."""
    if learner is None:
        return DefaultTrainer.of(problem, max_rows, workers)
    return CustomTrainer(learner, max_rows), None


def train_models(
    trainer: Trainer,
    problem: BinaryProblem,
    coded: Coded | None,
    training_rows: Callable[[int], Codes],
    seeds: Codes,
    workers: Workers,
    breaks: Breaks | None = None,
) -> list[PartModel]:
    """Train one model per seed; ``training_rows(k)`` are the rows of model ``k``, sorted by score."""

    def trained(k: int) -> PartModel:
        block = Block.of(problem, coded, training_rows(k), breaks=breaks)
        return trainer.train(block, int(seeds[k]))

    return workers.run(trained, range(len(seeds)))


def stack_columns(predictions: Iterable[Floats], block: Block) -> Floats:
    """Return the predictions of all models, stage by stage, followed by the labels (columns, rows).

    ``predictions`` are those of each model (stages, rows).
    """
    by_stage = list(zip(*predictions, strict=True))
    return np.stack([*chain.from_iterable(by_stage), block.labels])


def row_kappa(block: Block, models: Sequence[PartModel]) -> Floats:
    """Return ``kappa(C)`` of the rows of a block, where ``C`` is the mean of the models' curves."""
    tilts = QuadraticTilts(block.rule)
    if tilts.is_even:
        return np.ones(len(block.scores))
    return tilts.stiffness(mean_curve(block, models))


def mean_curve(block: Block, models: Sequence[PartModel]) -> Floats:
    """Return the mean of the models' calibration curves at the rows of a block."""
    return np.asarray(np.mean([model.curve(block.scores) for model in models], axis=0), float)
