"""Add rows to the sums of their regions, in fixed point."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.dispatch import kernel
from epiloss._kernels.layout import blocks
from epiloss._typing import Codes, Floats
from epiloss.calibration.clusters import ClusterParts
from epiloss.errors import DataError
from epiloss.scoring import Brier, ScoringRule

FIELDS = (
    "n",  # number of rows
    "weight",
    "weight_sq",
    "label",
    "score",
    "score_sq",
    "score_label",
    "loss",  # of rows with a finite loss
    "n_infinite",  # number of rows with an infinite loss
    "expected",  # expected score under the calibration curve, s(S, C)
    "curve_a",
    "curve_b",
    "curve_entropy",  # from the pair of curves, without their noise
    "level_weight_sq",  # squared weights if the level set is a single region
)
ADDED = FIELDS[:-1]  # added row by row; the last field differs from ``weight_sq`` only with clusters
INSIDE = 1e-6  # distance of fitted probabilities from 0 and 1 if the scoring rule is not bounded


def add_rows(
    code: Codes,
    sums: NDArray[np.int64],
    rule: ScoringRule,
    labels: Floats,
    scores: Floats,
    weights: Floats | None,
    weight_sq: Floats | None,
    curves: tuple[Floats, Floats] | None,
) -> list[int]:
    """Add rows to the sums of their cells; return for each field the index of the field with its sum."""
    a, b = (scores, scores) if curves is None else curves
    own = {name: name for name in ADDED}
    if type(rule) is Brier:
        both = _weights_and_squares(len(code), weights, weight_sq)
        if kernel().add_brier(code, labels, scores, (a, b), *both, sums):
            return [0, 0, 0, *range(3, len(ADDED))] if both[0] is None else list(range(len(ADDED)))
    for some in blocks(len(code), least=kernel().ROWS_PER_CELL * sums.shape[2]):
        w, squares = (None if one is None else one[some] for one in (weights, weight_sq))
        values = _row_values(rule, labels[some], scores[some], w, squares, a[some], b[some])
        own = _own_fields(values)
        for name in sorted(set(own.values()) & set(values)):
            add_up(code[some], values[name], sums[:, FIELDS.index(name)])
    return [FIELDS.index(own[name]) for name in ADDED]


def with_level_field(sums: NDArray[np.int64], own: list[int]) -> NDArray[np.int64]:
    """Return all fields: those that were added, and the one for level sets."""
    return sums[:, [*own, own[FIELDS.index("weight_sq")]]]


def residuals(
    labels: Floats, curves: tuple[Floats, Floats] | None, level_set: Codes, weights: Floats | None
) -> Floats:
    """Return labels minus the curve, or minus the mean of their level set without a curve."""
    if curves is not None:
        return labels - (curves[0] + curves[1]) / 2
    total = np.bincount(level_set, weights)
    ones = np.bincount(level_set, labels if weights is None else weights * labels)
    return labels - (ones / np.where(total > 0, total, 1.0))[level_set]


def _weights_and_squares(
    n: int, weights: Floats | None, weight_sq: Floats | None
) -> tuple[Floats | None, Floats | None]:
    """Return both, or None for both if all rows have weight 1."""
    if weights is None:
        return (None if weight_sq is None else np.ones(n)), weight_sq
    return weights, weights * weights if weight_sq is None else weight_sq


def _row_values(
    rule: ScoringRule,
    labels: Floats,
    scores: Floats,
    weights: Floats | None,
    weight_sq: Floats | None,
    a: Floats,
    b: Floats,
) -> dict[str, Floats]:
    """Return the values of rows in each field; fields with equal values share an array."""
    one = np.ones(len(scores))
    loss = rule.loss(scores, labels)
    finite = np.isfinite(loss)
    infinite = {}
    if not finite.all():
        loss, infinite = np.where(finite, loss, 0.0), {"n_infinite": 1.0 - finite}
    values = {
        "label": labels,
        "score": scores,
        "score_sq": scores * scores,
        "score_label": scores * labels,
        "loss": loss,
        "expected": _expected(rule, scores, labels, loss, (a + b) / 2),
        "curve_a": a,
        "curve_b": b,
        "curve_entropy": rule.pair_entropy(a, b),
    }
    w = one if weights is None else weights
    if weights is not None:
        weighted = {"score_sq": w * scores * scores, "score_label": w * scores * labels}
        values = {name: w * value for name, value in values.items()} | weighted
    square = weight_sq if weight_sq is not None else one if weights is None else w * w
    return {"n": one, "weight": w, "weight_sq": square} | infinite | values


def _expected(rule: ScoringRule, scores: Floats, labels: Floats, loss: Floats, curve: Floats) -> Floats:
    """Return the expected score of rows under the calibration curve.

    If the scoring rule is not bounded, errors of the curve would have too much weight. The expected
    score is then the observed one minus the deviation of the label from the curve.
    """
    if rule.bounded:
        return rule.expected(scores, curve)
    curve = np.clip(curve, INSIDE, 1 - INSIDE)
    return loss - (rule.loss(curve, labels) - rule.entropy(curve))


def _own_fields(values: dict[str, Floats]) -> dict[str, str]:
    """Return for each field the first field that shares its array of values."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(values.get(name, name)), name) for name in ADDED}


def cluster_weight(code: Codes, clusters: Codes, weight: Floats) -> Floats:
    """Return the weight of each row's cluster in its cell."""
    return ClusterParts.of(code, clusters, weight).total


def compressed(codes: Codes) -> tuple[Codes, Codes]:
    """Return the sorted distinct codes, and the index of each row's code among them."""
    if codes.max(initial=0) > 8 * len(codes) + 1000:
        present, position = np.unique(codes, return_inverse=True)
        return present, position
    occurs = np.bincount(codes) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[codes]


def add_up(code: Codes, values: Floats, sums: NDArray[np.int64]) -> None:
    """Add values, rounded to multiples of 2**-40, to the sums of their cells, in two limbs."""
    if not kernel().add_fixed_point(code, values, *sums):
        raise DataError(
            f"values to sum must be finite, got {values[~np.isfinite(values)][0]}. Check that the "
            "scoring rule's entropy is finite on [0, 1] and that curves stay within [0, 1]."
        )


def zero_sums(n_cells: int, rule: ScoringRule) -> NDArray[np.int64]:
    """Return sums (2 limbs, fields, cells) of zero.

    In memory, the sums of a cell are adjacent if all fields are added at once, else those of a field.
    """
    if type(rule) is Brier:
        return np.zeros((n_cells, 2, len(ADDED)), np.int64).transpose(1, 2, 0)
    return np.zeros((2, len(ADDED), n_cells), np.int64)


def carried(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Carry the low limb of the sums into the high limb, such that it lies in [0, 2**20)."""
    normal = np.empty(sums.shape, np.int64)
    np.right_shift(sums[1], 20, out=normal[0])
    np.bitwise_and(sums[1], 2**20 - 1, out=normal[1])
    normal[0] += sums[0]
    return normal
