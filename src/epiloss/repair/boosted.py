"""Corrections on the log-odds scale: a weighted combination of regressions, effects of levels and trees.

Rows are assigned to folds. Corrections of the log-odds of ``C`` are learned from the features and the
score on all folds but one, with several penalties of the ridge regression and several stages of
boosting, and predicted for the fold left out. If there are categorical columns with many levels, random
effects of their levels are one more model. The models are combined with the nonnegative weights that
maximise the likelihood of the labels given these cross-fitted predictions. The weights decide when
boosting stops and how much the corrections are shrunk.

Features and score are encoded once, without using labels. All folds share the encoding, so that their
models can be added up to one table for each column, one effect for each level, and one list of trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.reference_trees import MISSING, Bytes, Records
from epiloss._typing import Codes, Floats
from epiloss.estimation.crossfit.learners import Projection, Regressor, projection
from epiloss.estimation.learning.encoding import Coded, Encoding, learn_encoding
from epiloss.estimation.learning.levels import LevelEffects, levels_of
from epiloss.input.features import Features
from epiloss.repair.additive import LEAST_VARIANCE, STRENGTHS, Additive, Basis, fit_ridges
from epiloss.repair.base import Correction
from epiloss.repair.custom_learner import CustomModels
from epiloss.repair.level_effects import effects_at, fit_level_effects, sum_of_effects
from epiloss.repair.stacking import log_odds, nonnegative_logistic, shifted
from epiloss.repair.trees import growth_for, predict_stages, stages_for, weighted_trees

_MOST_ROWS = 200_000  # for fitting trees or a custom learner


@dataclass(frozen=True)
class BoostedCorrection:
    """The mean of the models of all folds; wide features are replaced by principal components."""

    narrow: Projection | None
    encoding: Encoding
    additive: Additive
    effects: LevelEffects
    trees: Records

    def corrected(self, features: Features, base: Floats) -> Floats:
        """Return the probabilities with corrected log-odds."""
        inputs = features if self.narrow is None else self.narrow(features)
        codes = self.encoding.codes(inputs, base)
        added = self.additive.predict(codes, base)
        self.effects.add(levels_of(inputs, self.effects.n_levels), added)
        kernel().boosted(codes, None, self.trees, added)
        return shifted(base, added)


@dataclass(frozen=True)
class _CodedModels:
    """Ridge regressions, effects of levels and trees of all folds, before they are combined.

    ``columns`` are the cross-fitted predictions: of each penalty, of each stage and, if there are
    columns with many levels, of the effects.
    """

    narrow: Projection | None
    encoding: Encoding
    basis: Basis
    ridges: Sequence[Floats]
    effects: Sequence[LevelEffects]
    trees: Sequence[Records]
    stages: Sequence[int]
    columns: Floats

    @classmethod
    def fit(
        cls,
        features: Features,
        base: Floats,
        labels: Floats,
        weights: Floats | None,
        parts: Sequence[tuple[Codes, Codes]],
        generator: np.random.Generator,
    ) -> _CodedModels:
        """Fit models to the first rows of each part, and predict the others."""
        narrow = projection(features, int(generator.integers(2**31)))
        inputs = features if narrow is None else narrow(features)
        encoding, coded = _encoded(inputs, base)
        codes, levels = coded.codes[:-1], coded.levels
        weight = np.ones(len(base)) if weights is None else weights / weights.mean()
        basis = Basis.of(encoding, codes, inputs)
        folds = [left_out for _, left_out in parts]
        ridges = fit_ridges(basis, codes, base, labels, weight, folds)
        effects = fit_level_effects(levels, encoding.n_levels, base, labels, weight, folds)
        stages = stages_for(len(base))
        columns = np.empty((len(base), len(STRENGTHS) + len(stages) + (len(levels) > 0)))
        trees = []
        for ridge, effect, (learn, left_out) in zip(ridges, effects, parts, strict=True):
            trees.append(_boost(codes, base, labels, weight, learn))
            own, p = np.take(codes, left_out, axis=1), base[left_out]
            found = [basis.additive(one).predict(own, p) for one in ridge]
            found.extend(predict_stages(trees[-1], own, stages).T)
            if levels:
                found.append(effects_at(effect, levels, left_out))
            columns[left_out] = np.column_stack(found)
        return cls(narrow, encoding, basis, ridges, effects, trees, stages, columns)

    def correction(self, shares: Floats) -> BoostedCorrection:
        """Return the mean over the folds, with the given weight for each column."""
        n = len(self.ridges)
        ends = np.cumsum([len(STRENGTHS), len(self.stages)])
        strengths, stages, of_effects = np.split(shares / n, ends)
        additive = self.basis.additive(strengths @ np.sum(self.ridges, axis=0))
        effects = sum_of_effects(self.effects, self.encoding.n_levels, float(of_effects.sum()))
        trees = np.concatenate([weighted_trees(one, self.stages, stages) for one in self.trees])
        return BoostedCorrection(self.narrow, self.encoding, additive, effects, trees)


def fit_boosted(
    features: Features,
    base: Floats,
    labels: Floats,
    weights: Floats | None,
    fold: Codes,
    learner: Regressor | None,
    generator: np.random.Generator,
) -> tuple[Correction, Floats]:
    """Return the correction, and each row corrected by models and weights that have not seen it.

    ``base`` is the calibrated score of each row, with a curve fitted to other folds.
    """
    parts = [_divided(fold, k, generator) for k in np.unique(fold)]
    rows = (features, base, labels, weights, parts, generator)
    models: CustomModels | _CodedModels
    models = _CodedModels.fit(*rows) if learner is None else CustomModels.fit(learner, *rows)
    columns, offset, honest = models.columns, log_odds(base), np.empty(len(base))
    for _, inside in parts:
        rest = np.delete(np.arange(len(base)), inside)
        some = None if weights is None else weights[rest]
        shares = nonnegative_logistic(columns[rest], labels[rest], offset[rest], some)
        honest[inside] = shifted(base[inside], columns[inside] @ shares)
    return models.correction(nonnegative_logistic(columns, labels, offset, weights)), honest


def _divided(fold: Codes, k: int, generator: np.random.Generator) -> tuple[Codes, Codes]:
    """Return the rows to learn from (a sample if there are very many) and those of fold ``k``."""
    learn, left_out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
    if len(learn) > _MOST_ROWS:
        learn = np.sort(generator.permutation(learn)[:_MOST_ROWS])
    return learn, left_out


def _encoded(features: Features, base: Floats) -> tuple[Encoding, Coded]:
    """Return an encoding in which unseen categories are missing values, and the encoded rows."""
    encoding, rows = learn_encoding(features, base)
    tables = {j: np.append(table[:-1], np.uint8(MISSING)) for j, table in encoding.tables.items()}
    return replace(encoding, tables=tables), rows


def _boost(codes: Bytes, base: Floats, labels: Floats, weight: Floats, learn: Codes) -> Records:
    """Boost the log-likelihood, starting at the log-odds of the scores."""
    p, w = base[learn], weight[learn]
    growth = growth_for(len(base), w * np.maximum(p * (1 - p), LEAST_VARIANCE))
    columns = np.arange(len(codes), dtype=np.int32)
    own = np.take(codes, learn, axis=1)
    trees: Records = kernel().boost(
        own, columns, labels[learn], w, log_odds(p), np.zeros(len(p)), growth
    )
    return trees
