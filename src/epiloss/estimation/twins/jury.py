"""Models of a sample that judge any other row: each row by the two models of the parts it is not in.

The part of a row is made of what it holds, its score and features, so that it is known of rows that come
alone: rows of the sample train the model of their own part, and equal rows are never divided. Where rows
are alike because there are few values, and no copies, it may be made of their places in the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.reference_trees import Bytes
from epiloss._threads import Workers, limited_threads
from epiloss._typing import Codes, Floats
from epiloss.estimation.crossfit.learners import Learner
from epiloss.estimation.crossfit.tilts import LogTilts, QuadraticTilts, tilts_of
from epiloss.estimation.learning.encoding import Encoding
from epiloss.estimation.twins.centring import ScoreBasis, ScoreScale, intervals_for
from epiloss.estimation.twins.design import content_keys, in_order, parts_of_keys
from epiloss.estimation.twins.estimate import twin_cost
from epiloss.estimation.twins.judges import (
    Block,
    EngineTeacher,
    Judge,
    columns_of,
    stiffness,
    teacher_of,
    train,
)
from epiloss.input.tasks import BinaryProblem
from epiloss.scoring import ScoringRule

Keys = NDArray[np.uint64]
N_PARTS, N_STAGES = 3, 2
_TRIES, _EVEN = 32, 0.25  # salts to look for parts that all have at least this share of the sample
_FURTHEST = 8.0  # that a prediction of Q - C is followed, so that sums of many rows stay in bounds


@dataclass(frozen=True)
class Judged:
    """The rows of one part with what two judges predict for them.

    ``columns`` are both predictions of each stage, and the label; ``kappa`` is how often a row counts.
    By the log-loss predictions are tilts, and ``costs`` (stages, rows) are those of the twins.
    """

    part: int
    rows: Codes
    basis: ScoreBasis
    columns: Floats
    kappa: Floats
    costs: Floats | None = None


@dataclass(frozen=True)
class Tilting:
    """How steps of log-odds become tilts in one part: the means given the score that are taken off.

    ``noise`` is the variance of twins' tilts by each stage; both are found from the sample.
    """

    coefficients: Floats
    noise: tuple[float, ...]


@dataclass(frozen=True)
class Jury:
    """Three models, and what it takes to judge rows by them.

    There is no encoding where the learner is the user's own. ``by_place`` says what parts are made of.
    """

    judges: tuple[Judge, ...]
    encoding: Encoding | None
    scale: ScoreScale
    rule: ScoringRule
    salt: int
    by_place: bool = False
    tilting: tuple[Tilting, ...] = ()  # of each part, by the log-loss

    @classmethod
    def learn(
        cls,
        sample: BinaryProblem,
        generator: np.random.Generator,
        n_rows: int,
        *,
        places: Keys | None = None,
        learner: Learner | None = None,
        n_jobs: int | None = None,
    ) -> Jury | None:
        """Train models on a sample of ``n_rows`` rows; None where a part would have no rows.

        ``places`` are keys made of the rows' places in the data, where these may count.
        """
        order, units = in_order(sample)
        sample, by_place = sample.take(order), places is not None and units is None
        keys = places[order] if places is not None and by_place else content_keys(sample)
        salt, part = _parted(keys, generator)
        if np.bincount(part, minlength=N_PARTS).min() == 0:
            return None
        seeds = generator.integers(2**31, size=N_PARTS)
        with limited_threads(openmp=learner is not None), Workers(n_jobs) as workers:
            teacher, codes = teacher_of(sample, learner, workers=workers)
            rows = [np.flatnonzero(part == k) for k in range(N_PARTS)]
            judges = train(teacher, sample, codes, rows.__getitem__, seeds, workers)
        scale = ScoreScale.of(sample.scores, sample.weights, intervals_for(n_rows // N_PARTS))
        encoding = teacher.encoding if isinstance(teacher, EngineTeacher) else None
        light = tuple(one.knowing(scale.scores) for one in judges)
        jury = cls(light, encoding, scale, sample.rule, salt, by_place)
        if not jury.is_tilted:
            return jury
        blocks = [Block.of(sample, codes, some, scale) for some in rows]
        return replace(jury, tilting=tuple(jury._tilting(k, one) for k, one in enumerate(blocks)))

    @property
    def n_stages(self) -> int:
        """The number of stages of the judges' predictions; the user's own learner has one."""
        return 1 if self.encoding is None else N_STAGES

    @property
    def is_even(self) -> bool:
        """Tell whether every row counts once, as by the Brier score and by the log-loss."""
        return self.is_tilted or QuadraticTilts(self.rule).is_even

    @property
    def is_tilted(self) -> bool:
        """Tell whether predictions are tilts, as by the log-loss."""
        return isinstance(tilts_of(self.rule), LogTilts)

    def _tilting(self, part: int, block: Block) -> Tilting:
        tilts = _tilts(block, self._judges_of(part))[1]
        coefficients = block.basis.fit(tilts)
        tilts = tilts - block.basis.at(coefficients)
        noise = (float(np.mean((a - b) ** 2)) / 2 for a, b in zip(tilts[::2], tilts[1::2], strict=True))
        return Tilting(coefficients, tuple(noise))

    def _judges_of(self, part: int) -> list[Judge]:
        return [one for place, one in enumerate(self.judges) if place != part]

    def judged(self, problem: BinaryProblem, places: Keys | None = None) -> Iterator[Judged]:
        """Judge rows, part by part; ``places`` are as those of the sample."""
        assert problem.features is not None
        if not len(problem.labels):
            return
        keys = places if self.by_place and places is not None else content_keys(problem)
        part = parts_of_keys(keys, self.salt, N_PARTS)
        codes: Bytes | None = None
        if self.encoding is not None:
            codes = self.encoding.codes(problem.features, problem.scores, problem.claimed)
        for k in range(N_PARTS):
            rows = np.flatnonzero(part == k)
            if not len(rows):
                continue
            block = Block.of(problem, codes, rows, self.scale)
            yield self._tilted(k, rows, block) if self.is_tilted else self._predicted(k, rows, block)

    def _predicted(self, part: int, rows: Codes, block: Block) -> Judged:
        judges = self._judges_of(part)
        columns = np.clip(
            columns_of((one.stages(block) for one in judges), block), -_FURTHEST, _FURTHEST
        )
        return Judged(part, rows, block.basis, columns, stiffness(block, judges))

    def _tilted(self, part: int, rows: Codes, block: Block) -> Judged:
        judges, tilting = self._judges_of(part), self.tilting[part]
        curve, tilts = _tilts(block, judges)
        tilts = tilts - block.basis.at(tilting.coefficients)
        rule = tilts_of(self.rule)
        assert isinstance(rule, LogTilts)
        pairs = zip(np.split(tilts, self.n_stages), tilting.noise, strict=True)
        costs = np.stack([twin_cost(rule, curve, pair, [(0, 1)], noise) for pair, noise in pairs])
        columns = np.concatenate([tilts, block.labels[None]])
        return Judged(part, rows, block.basis, columns, np.ones(len(rows)), costs)


def _tilts(block: Block, judges: Sequence[Judge]) -> tuple[Floats, Floats]:
    """Return the curve, and the tilts that judges predict, stage by stage."""
    rule = tilts_of(block.rule)
    assert isinstance(rule, LogTilts)
    curve = np.mean([one.curve(block.scores) for one in judges], axis=0)
    tilts = np.stack([rule.of_steps(one.steps(block), curve) for one in judges], axis=1)
    return curve, np.clip(tilts.reshape(-1, len(block.labels)), -_FURTHEST, _FURTHEST)


def _parted(keys: Keys, generator: np.random.Generator) -> tuple[int, Codes]:
    """Return a salt, and the part of each row by it: where few rows differ, the most even of several."""
    found = []
    for salt in generator.integers(2**63, size=_TRIES).tolist():
        part = parts_of_keys(keys, salt, N_PARTS)
        least = int(np.bincount(part, minlength=N_PARTS).min())
        found.append((least, salt))
        if least >= _EVEN * len(part):
            break
    salt = max(found)[1]
    return salt, parts_of_keys(keys, salt, N_PARTS)
