"""Twin models trained on a sample that evaluate any other row, one batch of rows at a time.

Rows are split into three parts, and one model is trained on the sampled rows of each. The two models of
the other parts evaluate a row. The part of a row depends only on its score and features, so that it is
known without the other rows: sampled rows are never evaluated by the model that was trained on them, and
equal rows are never divided between parts. If many rows are equal without being copies of each other,
the part may depend on the row's number in the data instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epiloss._threads import Workers, limited_threads
from epiloss._typing import Codes, Floats
from epiloss.estimation.crossfit.learners import Learner
from epiloss.estimation.crossfit.tilts import LogTilts, QuadraticTilts, tilts_of
from epiloss.estimation.learning.encoding import Encoding
from epiloss.estimation.twins.centring import ScoreBasis, ScoreScale, intervals_for
from epiloss.estimation.twins.design import content_keys, order_and_units, parts_of_keys
from epiloss.estimation.twins.evaluate import twin_cost
from epiloss.estimation.twins.models import (
    Block,
    DefaultTrainer,
    PartModel,
    mean_curve,
    row_kappa,
    stack_columns,
    train_models,
    trainer_for,
)
from epiloss.input.tasks import BinaryProblem
from epiloss.scoring import ScoringRule

Keys = NDArray[np.uint64]
# Three parts are the fewest with which every row has two models that were not trained on its part.
N_PARTS = 3
# The early and the full prediction.
_N_STAGES = 2
# With few distinct rows, a split can be uneven. Up to 32 splits are tried, until each part has at least
# a quarter of the sample.
_MAX_TRIES, _MIN_PART_SHARE = 32, 0.25
# Predictions are clipped to this absolute value, so that sums over many rows do not overflow.
_MAX_PREDICTION = 8.0


@dataclass(frozen=True)
class EvaluatedPart:
    """The rows of one part, with the predictions of the two models of the other parts.

    ``columns`` are both predictions of each stage, and the label. ``kappa`` is the factor of each row's
    terms. For the log-loss, predictions are tilts, and ``costs`` (stages, rows) are the costs of the
    mean tilt.
    """

    part: int
    rows: Codes
    basis: ScoreBasis
    columns: Floats
    kappa: Floats
    costs: Floats | None = None


@dataclass(frozen=True)
class TiltCentring:
    """The means of tilts given the score, which are subtracted from the tilts of one part.

    ``coefficients`` are those of the means, and ``noise`` is the variance of the tilts of each stage.
    Both are found from the sample.
    """

    coefficients: Floats
    noise: tuple[float, ...]


@dataclass(frozen=True)
class TwinModels:
    """Three models, and everything needed to evaluate rows by them.

    ``encoding`` is None for a learner passed by the user. The part of a row depends on its number in the
    data if ``by_place``, otherwise on its score and features. ``centring`` has an element for each part
    if the scoring rule is the log-loss.
    """

    models: tuple[PartModel, ...]
    encoding: Encoding | None
    scale: ScoreScale
    rule: ScoringRule
    salt: int
    by_place: bool = False
    centring: tuple[TiltCentring, ...] = ()

    @classmethod
    def train(
        cls,
        sample: BinaryProblem,
        generator: np.random.Generator,
        n_rows: int,
        *,
        places: Keys | None = None,
        learner: Learner | None = None,
        n_jobs: int | None = None,
    ) -> TwinModels | None:
        """Train models on a sample of ``n_rows`` rows; return None if a part would have no rows.

        ``places`` are keys made from the rows' numbers in the data; without them, parts never depend on
        these numbers.
        """
        order, units = order_and_units(sample)
        sample, by_place = sample.take(order), places is not None and units is None
        keys = places[order] if places is not None and by_place else content_keys(sample)
        salt, part = _most_even_split(keys, generator)
        if np.bincount(part, minlength=N_PARTS).min() == 0:
            return None
        seeds = generator.integers(2**31, size=N_PARTS)
        with limited_threads(openmp=learner is not None), Workers(n_jobs) as workers:
            trainer, coded = trainer_for(sample, learner, workers=workers)
            rows = [np.flatnonzero(part == k) for k in range(N_PARTS)]
            models = train_models(trainer, sample, coded, rows.__getitem__, seeds, workers)
        scale = ScoreScale.of(sample.scores, sample.weights, intervals_for(n_rows // N_PARTS))
        encoding = trainer.encoding if isinstance(trainer, DefaultTrainer) else None
        small = tuple(model.with_curve_at(scale.scores) for model in models)
        twins = cls(small, encoding, scale, sample.rule, salt, by_place)
        if not twins.uses_tilts:
            return twins
        blocks = [Block.of(sample, coded, part_rows, scale) for part_rows in rows]
        centring = tuple(twins._find_centring(k, block) for k, block in enumerate(blocks))
        return replace(twins, centring=centring)

    @property
    def n_stages(self) -> int:
        """The number of stages of the predictions; a learner passed by the user has one."""
        return 1 if self.encoding is None else _N_STAGES

    @property
    def is_even(self) -> bool:
        """Whether ``kappa`` is 1 for every row, as for the Brier score and the log-loss."""
        return self.uses_tilts or QuadraticTilts(self.rule).is_even

    @property
    def uses_tilts(self) -> bool:
        """Whether predictions are tilts, as for the log-loss."""
        return isinstance(tilts_of(self.rule), LogTilts)

    def _find_centring(self, part: int, block: Block) -> TiltCentring:
        tilts = _predict_tilts(block, self._evaluating_models(part))[1]
        coefficients = block.splines.fit(tilts)
        tilts = tilts - block.splines.at(coefficients)
        noise = (float(np.mean((a - b) ** 2)) / 2 for a, b in zip(tilts[::2], tilts[1::2], strict=True))
        return TiltCentring(coefficients, tuple(noise))

    def _evaluating_models(self, part: int) -> list[PartModel]:
        return [model for k, model in enumerate(self.models) if k != part]

    def evaluate(self, problem: BinaryProblem, places: Keys | None = None) -> Iterator[EvaluatedPart]:
        """Yield the evaluated rows of each part; ``places`` are made as those of the sample."""
        assert problem.features is not None
        if not len(problem.labels):
            return
        keys = places if self.by_place and places is not None else content_keys(problem)
        part = parts_of_keys(keys, self.salt, N_PARTS)
        coded = None
        if self.encoding is not None:
            coded = self.encoding.coded(problem.features, problem.scores, problem.claimed)
        for k in range(N_PARTS):
            rows = np.flatnonzero(part == k)
            if not len(rows):
                continue
            block = Block.of(problem, coded, rows, self.scale)
            yield self._with_tilts(k, rows, block) if self.uses_tilts else self._plain(k, rows, block)

    def _plain(self, part: int, rows: Codes, block: Block) -> EvaluatedPart:
        models = self._evaluating_models(part)
        columns = stack_columns((model.predict_stages(block) for model in models), block)
        columns = np.clip(columns, -_MAX_PREDICTION, _MAX_PREDICTION)
        return EvaluatedPart(part, rows, block.splines, columns, row_kappa(block, models))

    def _with_tilts(self, part: int, rows: Codes, block: Block) -> EvaluatedPart:
        centring = self.centring[part]
        curve, tilts = _predict_tilts(block, self._evaluating_models(part))
        tilts = tilts - block.splines.at(centring.coefficients)
        rule = tilts_of(self.rule)
        assert isinstance(rule, LogTilts)
        pairs = zip(np.split(tilts, self.n_stages), centring.noise, strict=True)
        costs = np.stack([twin_cost(rule, curve, pair, [(0, 1)], noise) for pair, noise in pairs])
        columns = np.concatenate([tilts, block.labels[None]])
        return EvaluatedPart(part, rows, block.splines, columns, np.ones(len(rows)), costs)


def _predict_tilts(block: Block, models: Sequence[PartModel]) -> tuple[Floats, Floats]:
    """Return the mean curve of the models, and their tilts (stages x models, rows)."""
    rule = tilts_of(block.rule)
    assert isinstance(rule, LogTilts)
    curve = mean_curve(block, models)
    tilts = np.stack([rule.of_steps(model.predict_steps(block), curve) for model in models], axis=1)
    return curve, np.clip(tilts.reshape(-1, len(block.labels)), -_MAX_PREDICTION, _MAX_PREDICTION)


def _most_even_split(keys: Keys, generator: np.random.Generator) -> tuple[int, Codes]:
    """Return the salt of an even split of the keys into parts, and the part of each key."""
    tried = []
    for salt in generator.integers(2**63, size=_MAX_TRIES).tolist():
        part = parts_of_keys(keys, salt, N_PARTS)
        smallest = int(np.bincount(part, minlength=N_PARTS).min())
        tried.append((smallest, salt))
        if smallest >= _MIN_PART_SHARE * len(part):
            break
    salt = max(tried)[1]
    return salt, parts_of_keys(keys, salt, N_PARTS)
