"""Reading results back from the JSON that ``to_json`` or ``--output`` has written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from epiloss._saving import SCHEMA
from epiloss.analysis.changes import Changes
from epiloss.analysis.comparison import Comparison
from epiloss.analysis.drift_result import Drift, SampleLosses
from epiloss.analysis.regret import Regret
from epiloss.analysis.tracking_result import Alarm, Tracking
from epiloss.auditing.differences import LOSSES
from epiloss.auditing.result import Audit
from epiloss.auditing.saved import read_audit, read_estimate, read_table
from epiloss.errors import DataError, Remark, printable
from epiloss.estimate import Estimate

_MOST_BYTES = 2**28
_BROKEN = (KeyError, TypeError, ValueError, OverflowError, AttributeError, IndexError)
_REMEDY = "Name a file written by --output or to_json."


def load_result(path: str | Path) -> Any:
    """Read a result from the JSON that ``to_json`` or ``--output`` has written.

    The result has no rows: it can be printed, shown as a report and used as a baseline, but not
    repaired. JSON of earlier versions can be read, too.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Audit, Comparison, Drift, Regret or Tracking
        The saved result.

    See Also
    --------
    Audit.to_json : writes the JSON.
    load_repair : reads a repair.

    Examples
    --------
    >>> import epiloss, tempfile
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(1_000)
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = result.to_json(f"{folder}/audit.json")
    ...     again = epiloss.load_result(f"{folder}/audit.json")
    >>> again.grouping_loss == result.grouping_loss, again.verdict == result.verdict
    (True, True)
    """
    name = printable(repr(str(path)))
    plain = _json(path, name)
    if not isinstance(plain, Mapping) or not isinstance(plain.get("schema"), int):
        raise DataError(f"{name} is not a saved result: it has no schema number. {_REMEDY}")
    if plain["schema"] > SCHEMA:
        raise DataError(
            f"{name} was saved by a later version (schema {plain['schema']}; this version reads up to "
            f"{SCHEMA}). Upgrade epiloss."
        )
    kind = next((one for one in _KINDS if one[0] <= set(plain)), None)
    if kind is None:
        raise DataError(f"{name} is not a result of a known kind. {_REMEDY}")
    try:
        return kind[1](plain)
    except _BROKEN as error:
        reason = printable(f"{type(error).__name__}: {error}")[:200].rstrip(".")
        raise DataError(f"{name} is not a saved result that can be read: {reason}. {_REMEDY}") from error


def load_audit(path: str | Path) -> Audit:
    """Read an audit, or raise an error if the file holds another kind of result."""
    found = load_result(path)
    if not isinstance(found, Audit):
        raise DataError(
            f"{printable(repr(str(path)))} must hold an audit, got a {type(found).__name__}. Name "
            "the JSON of an audit."
        )
    return found


def _json(path: str | Path, name: str) -> Any:
    try:
        if Path(path).stat().st_size > _MOST_BYTES:
            raise DataError(
                f"a saved result must not exceed {_MOST_BYTES:,} bytes, but {name} does. {_REMEDY}"
            )
        return json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_constant)
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise DataError(f"cannot read a result from {name}: {reason}. {_REMEDY}") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _comparison(plain: Mapping[str, Any]) -> Comparison:
    audits = {str(name): read_audit(one) for name, one in plain["audits"].items()}
    table, differences = (read_table(plain[name]) for name in ("table", "differences"))
    return Comparison(str(plain["baseline"]), table, differences, audits)


def _drift(plain: Mapping[str, Any]) -> Drift:
    samples = (plain["reference"], plain["current"])
    first, second = (
        SampleLosses(int(one["n_evaluated"]), **{name: _estimate(one[name]) for name in LOSSES})
        for one in samples
    )
    return Drift(
        task=str(plain["task"]),
        rule=str(plain["rule"]),
        reference=first,
        current=second,
        difference={str(name): _estimate(one) for name, one in plain["difference"].items()},
        n_regions=int(plain["n_regions"]),
        confidence_level=float(plain["confidence_level"]),
        remarks=_remarks(plain),
        method=str(plain.get("method", "partition")),
        changes=_changes(plain.get("changes")),
    )


def _changes(plain: Mapping[str, Any] | None) -> Changes | None:
    """Return the changes between two data sets; JSON of early versions has none."""
    if plain is None:
        return None
    known = {one.name for one in fields(Changes)}
    differences = {str(name): _estimate(one) for name, one in plain["differences"].items()}
    given = {name: one for name, one in plain.items() if name in known}
    return Changes(**given | {"differences": differences})


def _regret(plain: Mapping[str, Any]) -> Regret:
    return Regret(
        threshold=float(plain["threshold"]),
        cost_fp=float(plain["cost_fp"]),
        cost_fn=float(plain["cost_fn"]),
        cost=_estimate(plain["cost"]),
        calibration=_estimate(plain["calibration"]),
        grouping=_estimate(plain["grouping"]),
        remaining=_estimate(plain["remaining"]),
        curve=read_table(plain["curve"]),
        confidence_level=float(plain.get("confidence_level", 0.95)),
        n_evaluated=int(plain.get("n_evaluated", 0)),
    )


def _tracking(plain: Mapping[str, Any]) -> Tracking:
    change = {str(name): _estimate(one) for name, one in plain["score_change"].items()}
    return Tracking(
        task=str(plain["task"]),
        rule=str(plain["rule"]),
        confidence_level=float(plain["confidence_level"]),
        n_reference=int(plain["n_reference"]),
        n_current=int(plain["n_current"]),
        limit=float(plain["limit"]),
        reference={str(name): _number(one) for name, one in plain["reference"].items()},
        score_change=change,
        periods=read_table(plain["periods"]),
        changes=read_table(plain["changes"]),
        alarms=tuple(Alarm(**one) for one in plain["alarms"]),
        remarks=_remarks(plain),
    )


def _number(value: float | None) -> float:
    return math.inf if value is None else float(value)


def _remarks(plain: Mapping[str, Any]) -> tuple[Remark, ...]:
    return tuple(map(Remark.from_dict, plain["remarks"]))


def _estimate(plain: Mapping[str, Any]) -> Estimate:
    found = read_estimate(plain)
    if found is None:
        raise ValueError("an estimate is missing")
    return found


# the keys that identify each kind of result, and the function that reads it
_KINDS: tuple[tuple[set[str], Callable[[Mapping[str, Any]], Any]], ...] = (
    ({"audits", "differences", "baseline"}, _comparison),
    ({"reference", "current", "difference"}, _drift),
    ({"periods", "changes", "alarms"}, _tracking),
    ({"cost_fp", "cost_fn", "curve"}, _regret),
    ({"score", "regions", "level_sets"}, read_audit),
)
