"""Pages of audits and comparisons, and the notebook card: values for the templates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from markupsafe import Markup

from epiloss.analysis.comparison import Comparison, in_words
from epiloss.auditing.judgement import is_there
from epiloss.auditing.result import Audit
from epiloss.estimate import percent
from epiloss.number_format import loss_spec, rate_spec
from epiloss.presentation.report import diagram, wording
from epiloss.presentation.report.checks import passed_checks
from epiloss.presentation.report.costs import cost_table
from epiloss.presentation.report.escaping import asset, clean, environment, json_block, security_policy
from epiloss.presentation.report.figures import Curve, ledger_lines, loss_bars, smooth_curve
from epiloss.presentation.report.gaps import segment_table, subgroup_tables
from epiloss.presentation.report.header import About, Header, header_of
from epiloss.presentation.report.numbers import metric_table
from epiloss.presentation.report.payload import payload
from epiloss.table import Table

_SIDES = {
    "over": "Over-predicted: lower rates than all rows with equal scores",
    "under": "Under-predicted: higher rates than all rows with equal scores",
}
_WORST = 10  # regions per table
_MOST_CURVES = 10  # classes for which a smooth curve is fitted


def audit_page(
    audit: Audit,
    *,
    intersections: Iterable[Sequence[str]] = (),
    costs: Sequence[tuple[float, float]] | None = None,
    **about: Unpack[About],
) -> str:
    """Return the audit as an HTML page: the same bytes for the same audit on the same day.

    ``intersections`` are columns of subgroups whose combinations are also listed. ``costs`` are pairs of
    the costs of a false positive and a false negative at which the cost of decisions is shown.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(1_000)
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X, method="partition")
    >>> page = audit_page(result, title="A <b>bold</b> model")
    >>> "A &lt;b&gt;bold&lt;/b&gt; model" in page, "https:" in page
    (True, False)
    """
    shown_costs = cost_table(audit, costs)  # first, as it may refuse the costs
    audit = named_regions(audit)
    names = diagram.classes(audit)
    shown = [(view, named_regions(one)) for view, one in diagram.views(audit)]
    panels = diagram.panels(shown, names)
    title = "How far these probabilities are from the truth"
    return filled_page(
        "audit.html",
        header_of(about, title=title, rows=f"{audit.n_samples:,}"),
        audit=audit,
        headline=wording.headline(audit),
        blind=wording.is_blind(audit),
        ledger=ledger_lines(audit),
        is_spread=not audit.segments.note and is_there(audit.grouping_loss),
        segments=segment_table(audit),
        metrics=(metrics := metric_table(audit)),
        key_metrics=[] if metrics is None else metrics.key_rows,
        checks=passed_checks(audit),
        subgroups=subgroup_tables(audit, intersections),
        spec=loss_spec(audit.score.value),
        panels=panels,
        class_names=[name for name in names if name is not None],
        n_classes=len(audit.options.get("classes", ())),
        worst=[_worst(audit, side, names) for side in _SIDES],
        n_apart=int(np.sum(audit.regions["pvalue_adjusted"] <= 1 - audit.confidence_level)),
        recalibration=wording.recalibration(audit),
        losses=loss_bars([("", audit)], audit.verdict.matters),
        curves=_curves(audit, names),
        costs=shown_costs,
        terms=wording.terms(audit),
        data=json_block(payload(panels)),
        **method_parts(audit),
    )


def comparison_page(comparison: Comparison, **about: Unpack[About]) -> str:
    """Return a comparison of models as an HTML page."""
    audits = {name: named_regions(one) for name, one in comparison.audits.items()}
    first = next(iter(audits.values()))
    title = "Which model is closer to the truth, and why"
    return filled_page(
        "comparison.html",
        header_of(about, title=title, rows=f"{first.n_samples:,}"),
        comparison=comparison,
        summary=in_words(comparison),
        audits=audits,
        first=first,
        losses=loss_bars(list(audits.items())),
        spec=loss_spec(*(one.score.value for one in audits.values())),
        differences=_differences(comparison),
        segments={name: segment_table(one) for name, one in audits.items()},
        headline=f"{len(audits)} models, {wording.headline(first, regions=False)}",
        data=json_block({"panels": []}),
        **method_parts(first, comparison.baseline),
    )


def audit_card(audit: Audit) -> str:
    """Return the audit as a small HTML fragment for notebooks, without a script."""
    audit = named_regions(audit)
    names = diagram.classes(audit)
    view, shown = diagram.views(audit)[0]
    (panel,) = diagram.panels([(view, named_regions(shown))], names[:1])
    template = environment().get_template("card.html")
    return template.render(
        audit=audit,
        headline=wording.headline(audit),
        badge=wording.badge(audit.verdict),
        ledger=ledger_lines(audit),
        panel=panel,
        style=Markup(asset("card.css")),
        wording=wording,
    )


def filled_page(template: str, header: Header, **parts: Any) -> str:
    """Fill a template; everything in ``parts`` is cleaned and escaped."""
    script, style = asset("diagram.js") + asset("page.js"), asset("style.css")
    return (
        environment()
        .get_template(template)
        .render(
            header=header,
            policy=security_policy(script=script, style=style),
            script=Markup(script),
            style=Markup(style),
            wording=wording,
            versions=wording.versions(),
            **parts,
        )
    )


def method_parts(audit: Audit, baseline: str | None = None) -> dict[str, Any]:
    """Return the options, notes and call of an audit, for the end of a page."""
    return {
        "options": wording.options_shown(audit.options),
        "notes": wording.notes(audit),
        "call": Markup("\n").join(map(clean, wording.call(audit, baseline))),
        "level": percent(audit.confidence_level),
    }


def named_regions(audit: Audit) -> Audit:
    """Return the audit with a description of every region, even if it was read without its rows."""
    columns = audit.regions.columns
    if wording.is_blind(audit):
        rules = [f"scores {row['level_text']}" for row in _rows(audit, audit.regions)]
    elif "rule" in columns:
        return audit
    else:
        rules = list(columns.get("subgroup", [f"region {k}" for k in columns["region"]]))
    return replace(audit, regions=Table({**columns, "rule": np.array(rules, object)}))


def _worst(audit: Audit, side: str, names: list[str | None]) -> dict[str, Any]:
    """Return the costliest regions on one side for each class, if their cost is above 0."""
    rows = []
    for number, name in enumerate(names):
        of_class = replace(audit, regions=diagram.placed(audit, name))
        table = of_class.worst_regions(_WORST, side=side)
        costly = _rows(audit, table.take(np.flatnonzero(table["cost"] > 0)))
        level = 1 - audit.confidence_level
        rows += [
            {**row, "class_number": number, "is_noise": row["pvalue_adjusted"] > level} for row in costly
        ]
    return {"side": side, "title": _SIDES[side], "rows": rows}


def _rows(audit: Audit, table: Table) -> list[dict[str, Any]]:
    """Return regions as dictionaries, with the range of their level set."""
    ranges = _ranges(audit.level_sets)
    rows = []
    for i in range(len(table)):
        row = {name: table[name][i] for name in table}
        class_name = str(row.get("class", ""))
        row["level_text"] = ranges.get((class_name, int(row["level_set"])), f"no. {row['level_set']}")
        row["class_name"] = class_name
        rows.append(row)
    return rows


def _ranges(levels: Table) -> dict[tuple[str, int], str]:
    if "low" not in levels.columns:
        return {}
    names = levels.columns.get("class", np.full(len(levels), ""))
    cells = zip(names, levels["level_set"], levels["low"], levels["high"], strict=True)
    return {(str(name), int(k)): _range(low, high) for name, k, low, high in cells}


def _range(low: float, high: float) -> str:
    spec = rate_spec(low, high)
    return f"{low:{spec}} to {high:{spec}}"


def _curves(audit: Audit, names: list[str | None]) -> list[Curve]:
    """Return the smooth calibration curves; none for the joint task, which has no single score."""
    if audit.details is None or audit.task == "joint" or len(names) > _MOST_CURVES:
        return []
    return [smooth_curve(audit.details.calibration_curve(name)) for name in names]


def _differences(comparison: Comparison) -> list[dict[str, Any]]:
    table = comparison.differences
    rows = []
    for i in range(len(table)):
        row = {name: table[name][i] for name in table}
        row["loss"] = str(row["loss"]).replace("_recalibrated", ", recalibrated").replace("_", " ")
        rows.append(row)
    return rows
