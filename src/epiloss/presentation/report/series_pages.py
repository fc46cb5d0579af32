"""Pages with line charts: a model over time, and costs over thresholds."""

from __future__ import annotations

import math
from typing import Any, Unpack

from markupsafe import Markup

from epiloss.analysis.regret import Regret
from epiloss.analysis.tracking_result import LOSSES, POPULATION, Tracking
from epiloss.auditing.ledger import RULES
from epiloss.errors import printable
from epiloss.estimate import Estimate, percent
from epiloss.number_format import loss_spec, rate_spec
from epiloss.presentation.report import wording
from epiloss.presentation.report.escaping import clean, json_block
from epiloss.presentation.report.header import About, header_of
from epiloss.presentation.report.pages import filled_page
from epiloss.presentation.report.series import chart
from epiloss.presentation.smoothing import MANY, WINDOW, running_mean

_SHOWN = 10  # groups of each kind that are listed
_TITLES = {
    LOSSES: ("Groups whose rates differ from the predictions", "rate", "expected"),
    POPULATION: ("Groups whose share of the rows changed", "share", "before"),
}
_COSTS = {
    "cost": "cost of decisions based on the scores",
    "calibration": "saved by recalibration",
    "grouping": "also saved by a repair",
    "remaining": "remaining cost",
}


def tracking_page(tracking: Tracking, **about: Unpack[About]) -> str:
    """Return a model over time as an HTML page."""
    periods = tracking.periods
    names = [str(one) for one in periods["period"]]
    many = len(names) > MANY
    score, expected = (
        running_mean(one, periods["n"]) if many else one
        for one in (periods["score"], periods["expected_score"])
    )
    scores = {
        (f"score, mean of {WINDOW} batches" if many else "score", "curve"): score,
        ("expected if outcomes are as in the reference", "expected"): expected,
    }
    evidence = {
        ("outcomes", "over"): periods[f"evidence_{LOSSES}"],
        ("population", "under"): periods[f"evidence_{POPULATION}"],
    }
    limits = {f"alarm ({10**tracking.limit:.0f} times as likely)": tracking.limit}
    n = f"{tracking.n_reference:,} reference, {tracking.n_current:,} in {len(names):,} batches"
    return filled_page(
        "tracking.html",
        header_of(about, title="Has the model changed over time?", rows=n),
        headline=f"{tracking.task} task, {RULES.get(tracking.rule, tracking.rule)}, batches "
        f"{printable(names[0])} to {printable(names[-1])}",
        tracking=tracking,
        scores=chart("Score of each batch", names, scores, {"reference": tracking.reference["score"]}),
        evidence=chart("Evidence for a change, in powers of ten", names, evidence, limits),
        parts=_score_parts(tracking),
        tables=[_table(tracking, kind) for kind in _TITLES],
        level=percent(tracking.confidence_level),
        notes=list(tracking.remarks),
        call=Markup("\n").join(map(clean, _call(tracking))),
        options={},
        data=json_block({"panels": []}),
    )


def _score_parts(tracking: Tracking) -> list[tuple[str, str, str]]:
    spec = loss_spec(abs(tracking.reference["score"]), sign="+")
    titles = {
        "score": "change of the score",
        POPULATION: "due to the population",
        LOSSES: "due to outcomes at equal scores and features",
    }
    return [(title, *_number(tracking.score_change[name], spec)) for name, title in titles.items()]


def _number(estimate: Estimate, spec: str) -> tuple[str, str]:
    return wording.number(estimate.value, spec), wording.interval(estimate, spec)


def _table(tracking: Tracking, kind: str) -> dict[str, Any]:
    title, what, before = _TITLES[kind]
    rows = [row for row in tracking.changes.rows() if row["kind"] == kind and row["n"] > 0]
    return {
        "title": title,
        "what": what,
        "before": before,
        "rows": [_group(row) for row in rows[:_SHOWN]],
        "more": max(len(rows) - _SHOWN, 0),
    }


def _group(row: dict[str, Any]) -> dict[str, str]:
    spec = rate_spec(row["current"], row["expected"])
    return {
        "name": str(row["name"]),
        "since": str(row["since"]),
        "n": f"{row['n']:,.0f}",
        "current": format(row["current"], spec),
        "expected": format(row["expected"], spec),
        "change": f"{100 * row['change']:+z.1f}",
        "interval": f"[{100 * row['low']:+z.1f}, {100 * row['high']:+z.1f}]",
        "evidence": f"{row['evidence']:.1f}",
        "alarm": str(row["alarm"]),
    }


def _call(tracking: Tracking) -> list[str]:
    named = [] if tracking.rule == "brier" else [f"rule={tracking.rule!r}"]
    if not math.isclose(tracking.confidence_level, 0.95):
        named.append(f"confidence_level={tracking.confidence_level!r}")
    given = ["(y_true, y_prob, X)", "(y_true_now, y_prob_now, X_now)", "days", *named]
    return ["import epiloss", "", "epiloss.track(", *(f"    {one}," for one in given), ")"]


def regret_page(regret: Regret, **about: Unpack[About]) -> str:
    """Return the cost of decisions as an HTML page."""
    curve = regret.curve
    n = f"{regret.n_evaluated:,}" if regret.n_evaluated else ""
    after = curve["cost"] - curve["calibration"]
    lines = {
        ("scores as given", "curve"): curve["cost"],
        ("recalibrated scores", "under"): after,
        ("repaired scores", "over"): curve["remaining"],
    }
    spec = loss_spec(abs(regret.cost.value))
    return filled_page(
        "regret.html",
        header_of(about, title="The cost of decisions based on these scores", rows=n),
        headline=f"Acting on scores of {regret.threshold:.3g} or more: a false positive costs "
        f"{regret.cost_fp:g}, a false negative {regret.cost_fn:g}. Costs are per row.",
        summary=_summary(regret, spec),
        rows=[(title, *_number(getattr(regret, name), spec)) for name, title in _COSTS.items()],
        costs=chart(
            "Cost of decisions at each threshold",
            curve["threshold"],
            lines,
            from_zero=True,
        ),
        level=percent(regret.confidence_level),
        notes=[],
        call=Markup("\n").join(map(clean, _regret_call(regret))),
        options={},
        data=json_block({"panels": []}),
    )


def _summary(regret: Regret, spec: str) -> str:
    """Say which savings are significant."""
    said: list[str] = []
    beyond = ""
    for name, what in (("calibration", "Recalibration"), ("grouping", "A repair with the features")):
        one = getattr(regret, name)
        if one.low is not None and one.low > 0:
            part = f" ({one.value / regret.cost.value:.0%} of the cost)" if regret.cost.value > 0 else ""
            said.append(f"{what} would save {one.value:{spec}} per row{beyond}{part}.")
            beyond = " on top of that"
        else:
            said.append(f"No significant saving was found for {what[0].lower()}{what[1:]}.")
    return " ".join(said)


def _regret_call(regret: Regret) -> list[str]:
    costs = f"cost_fp={regret.cost_fp:g}, cost_fn={regret.cost_fn:g}"
    return [
        "import epiloss",
        "",
        "result = epiloss.audit(y_true, y_prob, X)",
        f"epiloss.regret(result, {costs})",
    ]
