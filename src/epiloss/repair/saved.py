"""Repairs as plain JSON: numbers and names, nothing that runs; what is read back is the same bits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.reference_trees import NODE, Records
from epiloss._saving import write_text
from epiloss.calibration.curves import InterpolatedCurve
from epiloss.errors import DataError, OptionError, printable
from epiloss.estimation.crossfit.learners import Projection
from epiloss.estimation.crossfit.ridges import Ridges, design_widths
from epiloss.input.datetimes import checked_kind
from epiloss.input.features import Features
from epiloss.partition.forest import Forest
from epiloss.repair.base import BinaryRepair, Correction
from epiloss.repair.boosted import BoostedCorrection, LinearAndTrees
from epiloss.repair.regional import RegionalCorrection
from epiloss.repair.trees import TreeSum

if TYPE_CHECKING:
    from epiloss.repair.estimators import RegionRecalibrator

FORMAT, SCHEMA = "epiloss repair", 1
_MOST_BYTES = 2**26  # a byte of JSON can take twenty of memory


def save_repair(repair: RegionRecalibrator, path: str | Path) -> None:
    """Write a fitted repair, wholly or not at all."""
    write_text(path, json.dumps(as_plain(repair), allow_nan=False) + "\n")


def read_repair(path: str | Path, repair: RegionRecalibrator) -> RegionRecalibrator:
    """Fill an unfitted repair from a file; one that is none is told in one sentence."""
    try:
        if Path(path).stat().st_size > _MOST_BYTES:
            raise DataError(f"{str(path)!r} is too large for a repair: over {_MOST_BYTES:,} bytes.")
        text = Path(path).read_text(encoding="utf-8")
        plain = json.loads(text, parse_constant=_no_constant)
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        reason = error.strerror if isinstance(error, OSError) else f"it is no JSON ({error})"
        raise DataError(
            f"cannot read a repair from {str(path)!r}: {reason}. Name a file that --save-repair or "
            "RegionRecalibrator.save has written."
        ) from error
    try:
        return from_plain(plain, repair)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, IndexError) as error:
        if isinstance(error, DataError):
            raise
        reason = printable(str(error))
        raise DataError(f"{str(path)!r} is not a repair that can be read: {reason}.") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number here")


def as_plain(repair: RegionRecalibrator) -> dict[str, Any]:
    """Return a repair as lists, numbers and names."""
    features = repair.features_in_
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "names": list(features.names),
        "categories": {str(j): list(levels) for j, levels in features.categories.items()},
        "dtypes": {str(j): name for j, name in features.dtypes.items()},
        "classes": repair.classes_.tolist(),
        "positive": int(repair.positive_),
        "options": {
            name: value
            for name, value in repair.get_params(deep=False).items()
            if isinstance(value, str | int | float) and not isinstance(value, bool)
        },
        "repairs": [_plain_repair(one) for one in repair.repairs_],
    }


def from_plain(plain: Any, repair: RegionRecalibrator) -> RegionRecalibrator:
    """Fill an unfitted repair with what :func:`as_plain` has written down."""
    if not isinstance(plain, Mapping) or plain.get("format") != FORMAT:
        raise DataError(f"this is no repair: its 'format' must be {FORMAT!r}.")
    if plain["schema"] != SCHEMA:
        raise DataError(
            f"the repair has schema {printable(repr(plain['schema']))}, and this version reads "
            f"{SCHEMA}. Learn it anew, or use the version that wrote it."
        )
    names = tuple(str(name) for name in plain["names"])
    categories = {int(j): tuple(map(str, levels)) for j, levels in plain["categories"].items()}
    known = repair.get_params()
    repair.set_params(**{name: value for name, value in plain["options"].items() if name in known})
    repair.features_in_ = Features(
        np.empty((0, len(names))),
        names,
        categories,
        dtypes={int(j): checked_kind(n) for j, n in plain["dtypes"].items()},
    )
    repair.classes_ = np.array(plain["classes"])
    repair.positive_ = int(plain["positive"])
    repair.repairs_ = [_read_repair(one, repair.features_in_) for one in plain["repairs"]]
    n_classes = len(repair.classes_)
    if len(repair.repairs_) not in ({1, 2} if n_classes == 2 else {n_classes}):
        raise ValueError(f"it has {len(repair.repairs_)} repairs of {n_classes} classes")
    if not 0 <= repair.positive_ < n_classes:
        raise ValueError(f"its positive class is number {repair.positive_} of {n_classes}")
    return repair


def _plain_repair(repair: BinaryRepair) -> dict[str, Any]:
    curve = repair.curve
    return {
        "curve": None if curve is None else [curve.scores.tolist(), curve.values.tolist()],
        "corrections": [_plain_correction(one) for one in repair.corrections],
    }


def _plain_correction(correction: Correction) -> dict[str, Any]:
    if isinstance(correction, RegionalCorrection):
        return {
            "kind": "regions",
            "centres": correction.centres.tolist(),
            "trees": [
                {"nodes": _plain_nodes(forest.nodes), "offsets": offset.tolist()}
                for forest, offset in zip(correction.forests, correction.offsets, strict=True)
            ],
        }
    assert isinstance(correction, BoostedCorrection)
    narrow = correction.narrow
    return {
        "kind": "boosted",
        "narrow": None if narrow is None else [narrow.centre.tolist(), narrow.components.tolist()],
        "parts": [_plain_part(part) for part in correction.parts],
    }


def _plain_part(part: Any) -> dict[str, Any]:
    if not isinstance(part, LinearAndTrees):
        raise OptionError(
            "a repair with a learner of your own cannot be saved: only what epiloss knows how to write "
            "down can. Leave learner out, or save the learner by its own means."
        )
    return {
        "centre": part.linear.centre.tolist(),
        "scale": part.linear.scale.tolist(),
        "coefficients": part.linear.coefficients[:, 0].tolist(),
        "constant": part.trees.constant,
        "nodes": _plain_nodes(part.trees.nodes),
        "roots": part.trees.roots.tolist(),
        "values": part.trees.values.tolist(),
    }


def _plain_nodes(nodes: Records) -> dict[str, Any]:
    assert nodes.dtype.names is not None  # it is a record
    plain = {name: nodes[name].tolist() for name in nodes.dtype.names}
    # of categories, a threshold that is no number stands for missing ones
    plain["threshold"] = [value if value == value else None for value in plain["threshold"]]
    return plain


def _read_repair(plain: Mapping[str, Any], features: Features) -> BinaryRepair:
    curve = None
    if plain["curve"] is not None:
        scores, values = (_numbers(part) for part in plain["curve"])
        if scores.shape != values.shape or not len(scores) or not (np.diff(scores) > 0).all():
            raise ValueError("its curve is none")
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError("its curve leaves [0, 1]")
        curve = InterpolatedCurve(scores, values)
    return BinaryRepair(curve, [_read_correction(one, features) for one in plain["corrections"]])


def _read_correction(plain: Mapping[str, Any], features: Features) -> Correction:
    if plain["kind"] == "regions":
        centres = _numbers(plain["centres"])
        if not len(centres) or not (np.diff(centres) > 0).all():
            raise ValueError("its level sets are not in order")
        forests, offsets = [], []
        for tree in plain["trees"]:
            nodes = _read_nodes(tree["nodes"], features.n_columns, len(centres))
            offset = _numbers(tree["offsets"])
            if len(offset) != len(nodes):
                raise ValueError("its regions and offsets differ in number")
            none = np.zeros(len(nodes), np.int64)  # what no correction asks for
            forests.append(Forest(nodes, none, none))
            offsets.append(offset)
        return RegionalCorrection(centres, forests, offsets)
    if plain["kind"] != "boosted":
        raise ValueError("its corrections are of an unknown kind")
    narrow = None
    if plain["narrow"] is not None:
        centre, components = (_numbers(part) for part in plain["narrow"])
        if centre.shape != (features.n_columns,) or components.shape[1:] != centre.shape:
            raise ValueError("its components do not fit its features")
        narrow = Projection(centre, components)
        features = narrow(features)
    return BoostedCorrection(narrow, [_read_part(part, features) for part in plain["parts"]])


def _read_part(plain: Mapping[str, Any], features: Features) -> LinearAndTrees:
    nodes = _read_nodes(plain["nodes"], features.n_columns + 1, 0)
    roots, values = np.array(plain["roots"], np.int64), _numbers(plain["values"])
    if len(values) != len(nodes) or not ((roots >= 0) & (roots < len(nodes))).all():
        raise ValueError("its trees and values differ in number")
    centre, scale, coefficients = (_numbers(plain[name]) for name in ("centre", "scale", "coefficients"))
    if not len(centre) == len(scale) == design_widths(features)[0] or (
        len(coefficients) != design_widths(features)[1]
    ):
        raise ValueError("its regression does not fit its features")
    linear = Ridges(centre, scale, coefficients[:, None])
    return LinearAndTrees(linear, TreeSum(float(plain["constant"]), nodes, roots, values))


def _read_nodes(plain: Mapping[str, Sequence[Any]], n_inputs: int, n_roots: int) -> Records:
    """Return nodes whose children lie behind them, so that every way ends."""
    columns = {name: list(plain[name]) for name in NODE.names or ()}
    columns["threshold"] = [np.nan if value is None else value for value in columns["threshold"]]
    n = len(columns["left"])
    if any(len(column) != n for column in columns.values()) or n < n_roots:
        raise ValueError("its nodes are incomplete")
    nodes = np.zeros(n, NODE)
    for name, column in columns.items():
        nodes[name] = column
    place = np.arange(n)
    split = nodes["left"] >= 0
    for side in ("left", "right"):
        if not ((nodes[side] > place) & (nodes[side] < n))[split].all():
            raise ValueError("its trees do not end")
    if not ((nodes["feature"] >= 0) & (nodes["feature"] < n_inputs))[split].all():
        raise ValueError("its trees ask for features that it has not")
    return nodes


def _numbers(plain: Any) -> NDArray[np.float64]:
    numbers = np.array(plain, np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("its numbers are not finite")
    return numbers
