"""The losses as tables: by level set and by region, and the histogram of the scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Codes, Floats
from epiloss.estimation.inference import adjusted_pvalues, rate_interval, rate_pvalue
from epiloss.estimation.losses import RegionLosses
from epiloss.estimation.partition_bound import STEPS, Evaluation, JoinedRegions
from epiloss.input.problem import Groups
from epiloss.table import Columns, Later, Table

_MOST_NAMES = 5  # merged groups that a description lists
_LEVEL_COLUMNS = (
    "score_mean",
    "label_mean",
    "score",
    "calibration_loss",
    "grouping_loss",
    "explained",
    "plugin",
    "bias",
    "induced",
    "n_regions",
)


def level_set_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return one row per level set; the losses, weighted by ``share``, add up to the total."""
    return _stacked([_level_columns(one) for one in evaluations])


def region_table(
    evaluations: Sequence[Evaluation], groups: Groups | None, *, level: float, adjust: str
) -> Table:
    """Return one row per region, evaluated on rows that were not used to learn it.

    ``low`` and ``high`` are the exact interval of its rate, ``expected`` is the rate of its level set
    at its mean score, ``deviation`` the difference of its rate from that, and ``pvalue_adjusted`` the
    p-value of no deviation, adjusted for the number of regions. ``cost`` is the region's contribution
    to the grouping loss after its bias is subtracted; without a deviation it is 0 on average.
    """
    table = _stacked(
        [
            {"fold": np.full(len(part.n), fold), **_class_column(one, len(part.n))}
            | _region_columns(part, joined, groups)
            for one in evaluations
            for fold, (part, joined) in enumerate(zip(one.regions, one.joined, strict=True))
        ]
    )
    rows, labels = np.arange(len(table)), (table["low"], table["high"])
    ends = {name: Later(partial(_rate_end, *labels, level, name), rows) for name in ("low", "high")}
    adjusted = adjusted_pvalues(table["pvalue"], adjust)
    return Table(Columns({**table.columns, **ends, "pvalue_adjusted": adjusted}))


def _rate_end(ones: Floats, n: Floats, level: float, name: str, rows: Codes) -> Floats:
    """Return one end of the intervals of the rates of some regions."""
    return rate_interval(ones[rows], n[rows], level)[name == "high"]


def histogram_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return the weight of the rows in bins of the score of equal width."""
    edges = np.linspace(0, 1, STEPS + 1)
    return _stacked(
        [
            {**_class_column(one, STEPS), "low": edges[:-1], "high": edges[1:], "n": one.histogram}
            for one in evaluations
        ]
    )


def _level_columns(one: Evaluation) -> dict[str, NDArray[Any]]:
    levels = one.levels
    columns = _class_column(one, len(levels.n)) | {"level_set": levels.level_set}
    if one.edges is not None:
        columns["low"] = one.edges[levels.level_set]
        columns["high"] = one.edges[levels.level_set + 1]
    columns["n"] = np.rint(levels.n).astype(np.int64)
    columns["share"] = levels.share
    return columns | {name: getattr(levels, name) for name in _LEVEL_COLUMNS}


def _region_columns(
    part: RegionLosses, joined: JoinedRegions, groups: Groups | None
) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {"level_set": part.level_set, "region": part.region}
    if groups is not None:
        columns["subgroup"] = _group_names(part, joined, groups)
    ones = part.label_mean * part.effective_n
    return columns | {
        "n": np.rint(part.n).astype(np.int64),
        "share": part.weight / part.weight.sum(),
        "score_mean": part.score_mean,
        "label_mean": part.label_mean,
        # Positives and rows, from which ``region_table`` computes the interval on first access.
        "low": ones,
        "high": part.effective_n,
        "expected": part.expected_mean,
        "deviation": part.label_mean - part.expected_mean,
        "pvalue": rate_pvalue(ones, part.effective_n, part.expected_mean),
        "plugin": part.plugin,
        "cost": part.weight / part.weight.sum() * (part.plugin - part.bias),
    }


def group_rules(evaluations: Sequence[Evaluation], groups: Groups) -> NDArray[Any]:
    """Return the description of each row of the region table: its groups, shortened if many."""
    return np.array(
        [
            _in_few_words(names)
            for one in evaluations
            for part, joined in zip(one.regions, one.joined, strict=True)
            for names in _members(part, joined, groups)
        ],
        object,
    )


def _in_few_words(names: Sequence[str]) -> str:
    """Return the names of merged groups; if they are many, the first ones and the number of others.

    Examples
    --------
    >>> _in_few_words(["a"]), _in_few_words(["a", "b"]), _in_few_words(list("abcdefgh"))
    ('a', 'a + b', 'a + b + c + d + 4 more')
    """
    if len(names) <= _MOST_NAMES:
        return " + ".join(names)
    return f"{' + '.join(names[: _MOST_NAMES - 1])} + {len(names) - _MOST_NAMES + 1:,} more"


def _group_names(part: RegionLosses, joined: JoinedRegions, groups: Groups) -> NDArray[Any]:
    """Return the name of each region's group, or all names if small groups were merged."""
    return np.array([" + ".join(names) for names in _members(part, joined, groups)], object)


def _members(part: RegionLosses, joined: JoinedRegions, groups: Groups) -> list[list[str]]:
    """Return the names of the groups in each region."""
    members: dict[tuple[int, int], list[str]] = {}
    for level_set, region, into in zip(joined.level_set, joined.region, joined.into, strict=True):
        members.setdefault((int(level_set), int(into)), []).append(groups.names[region])
    cells = zip(part.level_set.tolist(), part.region.tolist(), strict=True)
    return [members[cell] for cell in cells]


def _class_column(one: Evaluation, n: int) -> dict[str, NDArray[Any]]:
    return {} if one.problem.name is None else {"class": np.array([str(one.problem.name)] * n, object)}


def _stacked(parts: Sequence[dict[str, NDArray[Any]]]) -> Table:
    return Table({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
