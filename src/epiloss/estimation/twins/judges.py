"""Models of one part of the rows that judge the others: predictions of ``Q - C`` for rows not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

import numpy as np

from epiloss._kernels.reference_trees import Bytes
from epiloss._threads import ALONE, Workers
from epiloss._typing import Codes, Floats
from epiloss.estimation.crossfit.learners import Fitted, Learner
from epiloss.estimation.crossfit.tilts import LogTilts, QuadraticTilts, tilts_of
from epiloss.estimation.learning.encoding import Encoding, learn_encoding
from epiloss.estimation.learning.engine import Model, fit_model
from epiloss.estimation.twins.centring import ScoreBasis, ScoreScale
from epiloss.input.features import Features
from epiloss.input.tasks import BinaryProblem
from epiloss.scoring import ScoringRule

_EDGE, _RARE = 0.005, 0.1  # that curves are kept from 0 and from 1; of the rate of a rare outcome
_CURVE = 4_096  # scores by which a curve is known
_CLOSEST = 1e-290  # scores between which a curve is steeper than a number can tell
_EVENTS = 4.0  # rarer outcomes that a leaf expects at least, where ratios of probabilities count
FURTHEST = 1.0  # that ``Q`` can be from ``C``; nearer ends would bend the mean of noisy predictions
MOST_LEARNING = 80_000  # rows that a model learns from


@dataclass(frozen=True)
class Block:
    """Rows that learn together, or are judged together, in the order of their scores.

    The last line of ``codes`` is free, for what a model makes of the others; there are no codes where
    the learner is the user's own.
    """

    scores: Floats
    labels: Floats
    weights: Floats | None
    rule: ScoringRule
    features: Features
    codes: Bytes | None
    basis: ScoreBasis

    @classmethod
    def of(
        cls, problem: BinaryProblem, codes: Bytes | None, rows: Codes, scale: ScoreScale | None = None
    ) -> Block:
        """Return some rows of a problem in the order of their scores or, with a scale, in any order."""
        assert problem.features is not None  # twins learn from features
        own = None
        if codes is not None:
            own = np.empty((len(codes) + 1, len(rows)), np.uint8)
            np.take(codes, rows, axis=1, out=own[:-1], mode="clip")
        weights = None if problem.weights is None else problem.weights[rows]
        scores = problem.scores[rows]
        basis = ScoreBasis.of(scores, weights) if scale is None else scale.basis(scores, weights)
        features = problem.features.take(rows)
        return cls(scores, problem.labels[rows], weights, problem.rule, features, own, basis)

    def curve(self) -> Floats:
        """Return the calibration curve of the rows at their scores."""
        base_rate = float(self.labels.mean())
        edge = min(_EDGE, _RARE * min(base_rate, 1 - base_rate)) or _EDGE
        curve: Floats = np.clip(self.basis.mean(self.labels[None])[0], edge, 1 - edge)
        return curve


@dataclass(frozen=True)
class Curve:
    """A calibration curve by its values at some scores, straight between them."""

    scores: Floats
    values: Floats

    @classmethod
    def of(cls, block: Block, curve: Floats) -> Curve:
        """Return the curve of a block by its values at all rows."""
        starts = block.basis.starts
        some = evenly(len(starts), _CURVE)
        starts = starts if some is None else starts[some]
        scores = block.scores[starts]
        starts = starts[np.append(True, scores[1:] - scores[:-1] > _CLOSEST)]
        return cls(block.scores[starts], curve[starts])

    def __call__(self, scores: Floats) -> Floats:
        """Return the curve at scores."""
        return np.asarray(np.interp(scores, self.scores, self.values), float)

    def known_at(self, scores: Floats) -> Curve:
        """Return the curve by its values at other scores, in ascending order."""
        return Curve(scores, self(scores))


class Teacher(Protocol):
    """What trains models, all in the same way."""

    def learn(self, block: Block, seed: int) -> Judge:
        """Train a model on the rows of a block."""


class Judge(Protocol):
    """A trained model, with the calibration curve of the rows that it has learned from."""

    @property
    def curve(self) -> Curve:
        """The curve."""

    def judge(self, block: Block) -> Floats:
        """Return ``Q - C`` of the rows of a block, as far as it can tell."""

    def stages(self, block: Block) -> Floats:
        """Return the same from the most cautious guess to the last (stages, rows)."""

    def steps(self, block: Block) -> Floats:
        """Return steps of log-odds from ``C`` to ``Q`` instead (stages, rows)."""

    def knowing(self, scores: Floats) -> Judge:
        """Return the judge with its curve known at these scores alone."""


def evenly(n: int, most: int) -> Codes | None:
    """Return so many rows of ``n``, evenly over them; None for all where they are no more."""
    return None if n <= most else np.linspace(0, n - 1, most).astype(np.int64)


@dataclass(frozen=True)
class EngineTeacher:
    """The engine, on codes that were found without labels and are shared by all models."""

    encoding: Encoding
    most: int = MOST_LEARNING

    @classmethod
    def of(
        cls, problem: BinaryProblem, most: int = MOST_LEARNING, workers: Workers = ALONE
    ) -> tuple[EngineTeacher, Bytes]:
        """Return the teacher of a problem, and the codes of its rows."""
        assert problem.features is not None  # twins learn from features
        encoding, codes = learn_encoding(problem.features, problem.scores, problem.claimed, workers)
        return cls(encoding, most), codes

    def learn(self, block: Block, seed: int) -> EngineJudge:
        """Train the engine on a block, evenly over the scores where it has very many rows."""
        curve, codes, weights = block.curve(), block.codes, block.weights
        assert codes is not None
        labels, weight = block.labels, curve * (1 - curve)
        residual = labels - curve
        if weights is not None:
            weight, residual = weights * weight, weights * residual
        some = evenly(len(labels), self.most)
        if some is not None:
            codes, residual, weight = np.ascontiguousarray(codes[:, some]), residual[some], weight[some]
        least = _EVENTS if isinstance(tilts_of(block.rule), LogTilts) else 0.0
        model = fit_model(self.encoding, codes, residual, weight, least)
        return EngineJudge(Curve.of(block, curve), model)


@dataclass(frozen=True)
class EngineJudge:
    """The engine's model."""

    curve: Curve
    model: Model

    def judge(self, block: Block) -> Floats:
        """Return ``Q - C``."""
        last: Floats = self.stages(block)[-1]
        return last

    def stages(self, block: Block) -> Floats:
        """Return ``Q - C`` by few trees and by all: the engine has predicted steps of log-odds."""
        curve = self.curve(block.scores)
        stages: Floats = curve * (1 - curve) * self.steps(block)
        return np.clip(stages, -FURTHEST, FURTHEST, out=stages)

    def steps(self, block: Block) -> Floats:
        """Return what the engine predicts."""
        assert block.codes is not None
        return self.model.predict_stages(block.codes)

    def knowing(self, scores: Floats) -> EngineJudge:
        """Return the judge with its curve known at these scores alone."""
        return replace(self, curve=self.curve.known_at(scores))


@dataclass(frozen=True)
class OwnTeacher:
    """A learner of the user's own."""

    learner: Learner
    most: int = MOST_LEARNING

    def learn(self, block: Block, seed: int) -> OwnJudge:
        """Train a copy of the learner on a block."""
        curve = block.curve()
        features, scores, residual, weights = (
            block.features,
            block.scores,
            block.labels - curve,
            block.weights,
        )
        some = evenly(len(scores), self.most)
        if some is not None:
            features, scores, residual = features.take(some), scores[some], residual[some]
            weights = None if weights is None else weights[some]
        return OwnJudge(
            Curve.of(block, curve), self.learner.fit(features, scores, residual, weights, seed)
        )


@dataclass(frozen=True)
class OwnJudge:
    """A learner of the user's own, trained."""

    curve: Curve
    model: Fitted

    def judge(self, block: Block) -> Floats:
        """Return what it predicts."""
        return self.model.predict(block.features, block.scores)

    def stages(self, block: Block) -> Floats:
        """Return what it predicts, in one stage."""
        return self.judge(block)[None]

    def steps(self, block: Block) -> Floats:
        """Return steps of log-odds, to the first order."""
        curve = self.curve(block.scores)
        steps: Floats = self.stages(block) / (curve * (1 - curve))
        return steps

    def knowing(self, scores: Floats) -> OwnJudge:
        """Return the judge with its curve known at these scores alone."""
        return replace(self, curve=self.curve.known_at(scores))


def teacher_of(
    problem: BinaryProblem,
    learner: Learner | None,
    most: int = MOST_LEARNING,
    workers: Workers = ALONE,
) -> tuple[Teacher, Bytes | None]:
    """Return who trains models, and the rows' codes; none where the learner is the user's own."""
    if learner is None:
        return EngineTeacher.of(problem, most, workers)
    return OwnTeacher(learner, most), None


def train(
    teacher: Teacher,
    problem: BinaryProblem,
    codes: Bytes | None,
    rows: Callable[[int], Codes],
    seeds: Codes,
    workers: Workers,
) -> list[Judge]:
    """Train a model with each seed, on the rows of its place, in the order of their scores."""

    def learned(place: int) -> Judge:
        return teacher.learn(Block.of(problem, codes, rows(place)), int(seeds[place]))

    return workers.run(learned, range(len(seeds)))


def columns_of(guesses: Iterable[Floats], block: Block) -> Floats:
    """Return what judges predict for the rows of a block, stage by stage, and last the rows' labels.

    ``guesses`` are those of each judge (stages, rows).
    """
    by_stage = list(zip(*guesses, strict=True))
    return np.stack([*chain.from_iterable(by_stage), block.labels])


def stiffness(block: Block, judges: Sequence[Judge]) -> Floats:
    """Return ``kappa(C)`` of the rows of a block, with the mean of the judges' curves as ``C``."""
    tilts = QuadraticTilts(block.rule)
    if tilts.is_even:
        return np.ones(len(block.scores))
    return tilts.stiffness(np.mean([one.curve(block.scores) for one in judges], axis=0))
