"""Pages of changes: between two data sets, and by a repair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

from markupsafe import Markup

from epiloss.analysis.drift_result import Drift
from epiloss.auditing.differences import loss_title
from epiloss.auditing.ledger import RULES
from epiloss.auditing.result import Audit
from epiloss.estimate import Estimate, percent
from epiloss.number_format import loss_spec
from epiloss.presentation.report import diagram, wording
from epiloss.presentation.report.escaping import clean, json_block
from epiloss.presentation.report.figures import Bar, difference_bars
from epiloss.presentation.report.gaps import segment_table
from epiloss.presentation.report.header import About, header_of
from epiloss.presentation.report.pages import filled_page, named_regions
from epiloss.repair.evaluate import RepairResult

_KINDS = {"rose": "over", "fell": "under", "within noise": "within"}  # colours of bars
_HINTS = {name: hint for name, _, hint in wording.LEDGER}


@dataclass(frozen=True)
class ChangeRow:
    """A loss before and after, and the difference, as text; ``direction`` says if it is significant."""

    title: str
    hint: str
    before: tuple[str, str]
    after: tuple[str, str]
    difference: tuple[str, str]
    pvalue: str
    direction: str
    bar: Bar | None


def drift_page(drift: Drift, **about: Unpack[About]) -> str:
    """Return the losses of two data sets and their differences as an HTML page.

    Examples
    --------
    >>> import epiloss
    >>> one, two = (epiloss.simulate.Sigmoid().sample(1_000, random_state=i) for i in range(2))
    >>> page = drift_page(epiloss.drift((one.y, one.scores, one.X), (two.y, two.scores, two.X)))
    >>> page[:15], "current minus reference" in page
    ('<!DOCTYPE html>', True)
    """
    titles = {name: f"{name.replace('_', ' ')}{_bound(name, drift.method)}" for name in drift.difference}
    pairs = {name: (getattr(drift.reference, name), getattr(drift.current, name)) for name in titles}
    n = (drift.reference.n_evaluated, drift.current.n_evaluated)
    changes = drift.changes
    same: Mapping[str, Estimate] = {} if changes is None else changes.differences
    return filled_page(
        "drift.html",
        header_of(
            about,
            title="Has the model changed on new data?",
            rows=f"{n[0]:,} reference and {n[1]:,} current evaluated",
        ),
        headline=f"{drift.task} task, {RULES.get(drift.rule, f'rule {drift.rule}')}, "
        f"{drift.n_regions:,} regions, the same for both data sets",
        summary=_summary(drift.difference, titles, _spec(pairs), drift.confidence_level),
        changes=None if changes is None else str(changes),
        rows=_rows(titles, pairs, drift.difference, drift.confidence_level),
        common=_rows(titles, pairs, same, drift.confidence_level) if same else [],
        names=("reference", "current"),
        level=percent(drift.confidence_level),
        notes=list(drift.remarks),
        call=Markup("\n").join(map(clean, _drift_call(drift))),
        options={},
        data=json_block({"panels": []}),
    )


def repair_page(result: RepairResult, **about: Unpack[About]) -> str:
    """Return the audits before and after a repair and their differences as an HTML page."""
    before, after = named_regions(result.before), named_regions(result.after)
    level = before.confidence_level
    titles = {name: loss_title(name, before) for name in result.differences}
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in titles}
    what = wording.headline(before, regions=False)
    summary = _summary(result.differences, titles, _spec(pairs), level)
    return filled_page(
        "repair.html",
        header_of(about, title="What the repair changes", rows=f"{before.n_samples:,}"),
        headline=f"{what} not used to fit the repair, {result.repair.method} repair",
        summary=" ".join(filter(None, ("" if result.keeps else summary, result.note, result.missed))),
        before=before,
        after=after,
        keeps=result.keeps,
        rows=_rows(titles, pairs, result.differences, level),
        names=("before", "after"),
        panels=[_panel(one) for one in (before, after)],
        blind=wording.is_blind(before),
        segments=segment_table(after),
        level=percent(level),
        spec=loss_spec(before.score.value, after.score.value),
        notes=wording.notes(before),
        call=Markup("\n").join(map(clean, _repair_call(result))),
        options=wording.options_shown(before.options),
        data=json_block({"panels": []}),
    )


def _spec(pairs: Mapping[str, tuple[Estimate, Estimate]]) -> str:
    return loss_spec(*(one.value for one in pairs["score"]))


def _bound(name: str, method: str) -> str:
    return ", at least" if name == "grouping_loss" and method != "twin" else ""


def _panel(audit: Audit) -> diagram.Panel:
    view, shown = diagram.views(audit)[0]
    names = diagram.classes(audit)
    (panel,) = diagram.panels([(view, named_regions(shown))], names[:1])
    return panel


def _rows(
    titles: Mapping[str, str],
    pairs: Mapping[str, tuple[Estimate, Estimate]],
    differences: Mapping[str, Estimate],
    level: float,
) -> list[ChangeRow]:
    spec = _spec(pairs)
    changes = list(differences.values())
    bars = difference_bars(changes, [_KINDS[_direction(one, level)] for one in changes])
    rows = []
    for (name, change), bar in zip(differences.items(), bars, strict=True):
        before, after = (
            (wording.number(one.value, spec), wording.interval(one, spec)) for one in pairs[name]
        )
        rows.append(
            ChangeRow(
                titles[name],
                _HINTS.get(name, ""),
                before,
                after,
                (wording.number(change.value, f"+{spec}"), wording.interval(change, f"+{spec}")),
                wording.pvalue(change.pvalue),
                _direction(change, level),
                bar,
            )
        )
    return rows


def _direction(change: Estimate, level: float) -> str:
    """Say whether a loss rose or fell significantly."""
    is_sure = change.pvalue is not None and change.pvalue <= 1 - level
    if not is_sure or not math.isfinite(change.value):
        return "within noise"
    return "rose" if change.value > 0 else "fell"


def _summary(
    differences: Mapping[str, Estimate], titles: Mapping[str, str], spec: str, level: float
) -> str:
    """Say which losses changed significantly, and which did not."""
    said, same = [], []
    for name, change in differences.items():
        direction = _direction(change, level)
        if direction == "within noise":
            same.append(titles[name])
            continue
        sign = 1.0 if change.value > 0 else -1.0
        known = [sign * end for end in (change.low, change.high) if end is not None]
        ends = " to ".join(f"{end:{spec}}" for end in sorted(known))
        size = f"{abs(change.value):{spec}} ({percent(level)} interval {ends})"
        said.append(f"The {titles[name]} {direction} by {size}.")
    if same:
        said.append(f"No significant change was found in the {_listed(same)}.")
    return " ".join(said)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _drift_call(drift: Drift) -> list[str]:
    named = [f"task={drift.task!r}"]
    if drift.rule != "brier":
        named.append(f"rule={drift.rule!r}" if drift.rule in RULES else "rule=...")
    if drift.method != "twin":
        named.append(f"method={drift.method!r}")
    if drift.confidence_level != 0.95:
        named.append(f"confidence_level={drift.confidence_level!r}")
    samples = ["(y_true, y_prob, X)", "(y_true_now, y_prob_now, X_now)"]
    return ["import epiloss", "", "epiloss.drift(", *(f"    {one}," for one in [*samples, *named]), ")"]


def _repair_call(result: RepairResult) -> list[str]:
    head, _, *rest = wording.call(result.before)
    call = [f"result = {rest[0]}", *rest[1:]]
    method = result.repair.method
    repair = "" if method == "boosted" else f"epiloss.RegionRecalibrator({method!r})"
    return [head, "", *call, f"result.repair({repair})"]
