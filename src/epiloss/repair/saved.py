"""Repairs saved as JSON: numbers and names, no code; a loaded repair predicts the same bits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epiloss._kernels.boosting import BOOSTED, MOST_LEAVES
from epiloss._kernels.reference_trees import MISSING, N_CODES, N_EDGES, NODE, Records
from epiloss._saving import write_text
from epiloss.calibration.curves import InterpolatedCurve
from epiloss.errors import DataError, OptionError, printable
from epiloss.estimation.crossfit.learners import Projection
from epiloss.estimation.learning.encoding import Encoding
from epiloss.estimation.learning.levels import LevelEffects
from epiloss.input.datetimes import checked_kind
from epiloss.input.features import Features
from epiloss.partition.forest import Forest
from epiloss.repair.additive import Additive
from epiloss.repair.base import BinaryRepair, Correction
from epiloss.repair.boosted import BoostedCorrection
from epiloss.repair.regional import RegionalCorrection

if TYPE_CHECKING:
    from epiloss.repair.recalibrator import RegionRecalibrator

FORMAT, SCHEMA = "epiloss repair", 4
_MOST_BYTES = 2**26  # parsing JSON can take twenty times its size in memory


def save_repair(repair: RegionRecalibrator, path: str | Path) -> None:
    """Write a fitted repair, completely or not at all."""
    write_text(path, json.dumps(as_plain(repair), allow_nan=False) + "\n")


def read_repair(path: str | Path, repair: RegionRecalibrator) -> RegionRecalibrator:
    """Fill an unfitted repair from a file, or raise an error if the file is not a repair."""
    try:
        if Path(path).stat().st_size > _MOST_BYTES:
            raise DataError(
                f"a repair must not exceed {_MOST_BYTES:,} bytes, but {str(path)!r} does. Name a file "
                "written by --save-repair or RegionRecalibrator.save."
            )
        text = Path(path).read_text(encoding="utf-8")
        plain = json.loads(text, parse_constant=_no_constant)
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        reason = error.strerror if isinstance(error, OSError) else f"it is not JSON ({error})"
        raise DataError(
            f"cannot read a repair from {str(path)!r}: {reason}. Name a file written by "
            "--save-repair or RegionRecalibrator.save."
        ) from error
    try:
        return from_plain(plain, repair)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, IndexError) as error:
        if isinstance(error, DataError):
            raise
        reason = printable(str(error))
        raise DataError(f"{str(path)!r} is not a repair that can be read: {reason}.") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def as_plain(repair: RegionRecalibrator) -> dict[str, Any]:
    """Return a repair as plain lists, numbers and strings."""
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
    """Fill an unfitted repair with the values returned by :func:`as_plain`."""
    if not isinstance(plain, Mapping) or plain.get("format") != FORMAT:
        raise DataError(
            f"a repair must have the 'format' {FORMAT!r}, and this file does not. Name a file written "
            "by --save-repair or RegionRecalibrator.save."
        )
    if plain["schema"] != SCHEMA:
        raise DataError(
            f"the repair has schema {printable(repr(plain['schema']))}, but this version reads schema "
            f"{SCHEMA}. Fit it again, or use the version that wrote it."
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
    if not isinstance(correction, BoostedCorrection):
        raise OptionError(
            "a repair with a custom learner cannot be saved as JSON. Leave out learner, or save the "
            "learner with its own package."
        )
    narrow = correction.narrow
    return {
        "kind": "boosted",
        "narrow": None if narrow is None else [narrow.centre.tolist(), narrow.components.tolist()],
        "encoding": _plain_encoding(correction.encoding),
        "additive": correction.additive.tables.tolist(),
        "along": correction.additive.along.tolist(),
        "effects": {str(j): one.tolist() for j, one in correction.effects.effects.items()},
        "trees": _plain_columns(correction.trees),
    }


def _plain_encoding(encoding: Encoding) -> dict[str, Any]:
    """Return the finite edges (infinite ones are padding) and the codes of categories."""
    return {
        "edges": [edges[np.isfinite(edges)].tolist() for edges in encoding.edges],
        "tables": {str(j): table.tolist() for j, table in encoding.tables.items()},
    }


def _plain_columns(records: Records) -> dict[str, Any]:
    return {name: records[name].tolist() for name in records.dtype.names or ()}


def _plain_nodes(nodes: Records) -> dict[str, Any]:
    plain = _plain_columns(nodes)
    # splits on categories have the threshold NaN, which JSON cannot hold
    plain["threshold"] = [value if value == value else None for value in plain["threshold"]]
    return plain


def _read_repair(plain: Mapping[str, Any], features: Features) -> BinaryRepair:
    curve = None
    if plain["curve"] is not None:
        scores, values = (_numbers(part) for part in plain["curve"])
        if scores.shape != values.shape or not len(scores) or not (np.diff(scores) > 0).all():
            raise ValueError("its curve is not complete")
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
            none = np.zeros(len(nodes), np.int64)  # not needed for corrections
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
    encoding = _read_encoding(plain["encoding"], features)
    tables, along = (_numbers(plain[name]).astype(np.float32) for name in ("additive", "along"))
    if tables.shape != (3, features.n_columns + 1, N_CODES) or along.shape != (N_CODES,):
        raise ValueError("its tables do not fit its features")
    trees = _read_trees(plain["trees"], features.n_columns + 1)
    effects = _read_effects(plain["effects"], encoding)
    return BoostedCorrection(narrow, encoding, Additive(tables, along), effects, trees)


def _read_effects(plain: Mapping[str, Any], encoding: Encoding) -> LevelEffects:
    """Return the effects of levels, of which missing and unknown ones must have none."""
    effects = {int(j): _numbers(one) for j, one in plain.items()}
    if any(one.shape != (encoding.n_levels.get(j, -1) + 1,) for j, one in effects.items()):
        raise ValueError("its effects do not fit its categories")
    if any(one[-1] != 0 for one in effects.values()):
        raise ValueError("its unknown categories have an effect")
    return LevelEffects(effects)


def _read_encoding(plain: Mapping[str, Any], features: Features) -> Encoding:
    n = features.n_columns + 1  # the last one is the score
    if len(plain["edges"]) != n or {int(j) for j in plain["tables"]} != set(features.categories):
        raise ValueError("its codes do not fit its features")
    edges = np.full((n, N_EDGES), np.inf)
    for own, given in zip(edges, plain["edges"], strict=True):
        finite = _numbers(given)
        if finite.ndim != 1 or len(finite) > N_EDGES or not (np.diff(finite) >= 0).all():
            raise ValueError("its codes are not in order")
        own[: len(finite)] = finite
    tables = {int(j): np.array(table, np.int64) for j, table in plain["tables"].items()}
    for table in tables.values():
        if table.ndim != 1 or not len(table) or not ((table >= 0) & (table <= MISSING)).all():
            raise ValueError("its categories have unknown codes")
    # values are needed only for fitting regressions, and a loaded repair is not fitted again
    values = np.zeros((n, N_CODES), np.float32)
    return Encoding(edges, {j: table.astype(np.uint8) for j, table in tables.items()}, values)


def _read_trees(plain: Mapping[str, Any], n_inputs: int) -> Records:
    """Return trees after checking them, because the compiled loops do not check anything."""
    if not plain["left"]:  # boosting stopped before its first tree
        return np.zeros((0, 1), BOOSTED)
    columns = {name: np.array(plain[name]) for name in BOOSTED.names or ()}
    columns["value"] = _numbers(plain["value"])
    shape = columns["left"].shape
    if len(shape) != 2 or not shape[1] or any(one.shape != shape for one in columns.values()):
        raise ValueError("its trees are incomplete")
    if shape[1] >= 2 * MOST_LEAVES:
        raise ValueError("its trees are too large")
    if any(one.dtype.kind != "i" for name, one in columns.items() if name != "value"):
        raise ValueError("its trees have positions that are not whole numbers")
    if not all(_is_tree(left) for left in columns["left"]):
        raise ValueError("its trees do not end")
    for name, most in (("feature", n_inputs), ("code", MISSING), ("missing_left", 2)):
        if not ((columns[name] >= 0) & (columns[name] < most)).all():
            raise ValueError("its trees use unknown codes")
    trees = np.zeros(shape, BOOSTED)
    for name, column in columns.items():
        trees[name] = column
    return trees


def _is_tree(left: NDArray[np.int64]) -> bool:
    """Tell whether the pairs of children fill the places after the root, each exactly once."""
    splits = np.flatnonzero(left != -1)
    children = np.sort(left[splits])
    every = np.array_equal(children, 1 + 2 * np.arange(len(splits)))
    return every and 2 * len(splits) < len(left) and bool((left[splits] > splits).all())


def _read_nodes(plain: Mapping[str, Sequence[Any]], n_inputs: int, n_roots: int) -> Records:
    """Return nodes after checking that children follow their parents, so that every path ends."""
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
        raise ValueError("its trees use unknown features")
    return nodes


def _numbers(plain: Any) -> NDArray[np.float64]:
    numbers = np.array(plain, np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("its numbers are not finite")
    return numbers
