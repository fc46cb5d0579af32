"""The words and numbers of reports: the ledger, terms, recalibration, options, and the Python call."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from epiloss.auditing.judgement import (
    BORDERLINE,
    BOTH,
    FINE,
    LEAK,
    RECALIBRATE,
    REPAIR,
    SMALL,
    UNCLEAR,
)
from epiloss.auditing.ledger import DETECTABLE_TITLE, RULES, lower_limit_title, regions_by
from epiloss.auditing.result import Audit
from epiloss.auditing.verdict import Verdict
from epiloss.calibration.recalibrators import RECALIBRATORS
from epiloss.estimate import Estimate, percent
from epiloss.estimation.options import DEFAULTS, PAPER_REGION_RATIO
from epiloss.input.problem import RegionSource
from epiloss.number_format import loss_spec, rate_spec
from epiloss.partition import Tree

BADGES = {
    FINE: ("✓", "Fine"),
    SMALL: ("✓", "Small loss"),
    BORDERLINE: ("~", "Borderline"),
    RECALIBRATE: ("↻", "Recalibrate"),
    REPAIR: ("!", "Repair or retrain"),
    BOTH: ("!", "Recalibrate and repair"),
    UNCLEAR: ("?", "Unclear"),
    LEAK: ("!", "Check for a leak"),
}
LEDGER = (
    ("score", "score", "mean loss of the probabilities; lower is better"),
    ("calibration_loss", "= calibration loss", "what recalibration can remove"),
    ("grouping_loss", "+ grouping loss", "what remains wrong among rows with equal scores"),
    ("remainder", "+ remainder", "noise that no model can remove, and undetected grouping loss"),
)
_CURVES = {
    "LocalLinear": "local-linear",
    "Isotonic": "isotonic",
    "Lowess": "lowess",
    "Nearest": "nearest",
}
_LEARNED = RegionSource.LEARNED
_NAMELESS = "__index_level_"  # prefix of the column that holds an index without a name
_RATES = ("score_mean", "label_mean", "expected")  # of a region
_SAME_AS_GIVEN = ("strategy", "split", "repeats", "method", "adjust", "confidence_level", "tolerance")
_SHORT_HANDS = {"partition": ("stump", "kmeans"), "recalibrate": tuple(RECALIBRATORS)}


def badge(verdict: Verdict) -> tuple[str, str]:
    """Return the sign and the title of a verdict, which names the larger loss first."""
    sign, title = BADGES[verdict.kind]
    action = verdict.sentence.partition(":")[0]
    return sign, action if verdict.kind == BOTH else title


def curve_name(curve: str) -> str:
    """Return the name of a calibration curve in words.

    Examples
    --------
    >>> curve_name("LocalLinear"), curve_name("MyCurve")
    ('local-linear', 'MyCurve')
    """
    return _CURVES.get(curve, curve)


def number(value: float | None, spec: str = "z.5f") -> str:
    """Return a number as the ledger prints it.

    Examples
    --------
    >>> number(0.00344), number(float("inf")), number(None)
    ('0.00344', 'infinite', '')
    """
    if value is None or math.isnan(value):
        return ""
    return format(value, spec) if math.isfinite(value) else "infinite"


def interval(estimate: Estimate, spec: str = "z.5f") -> str:
    """Return the interval of an estimate, where it has one."""
    low, high = number(estimate.low, spec), number(estimate.high, spec)
    return f"[{low}, {high}]" if low and high else ""


def rate(value: float | None, row: Mapping[str, Any]) -> str:
    """Return a rate of a region with the number of digits that its score and rates need."""
    return number(value, rate_spec(*(float(row[name]) for name in _RATES)))


def share(value: float) -> str:
    """Return a share as a percentage.

    Examples
    --------
    >>> share(0.01)
    '1%'
    """
    return percent(value)


def pvalue(value: float | None) -> str:
    """Return a p-value with two significant digits.

    Examples
    --------
    >>> pvalue(0.0312), pvalue(1e-9), pvalue(1.0)
    ('0.031', '< 0.0001', '1')
    """
    if value is None or math.isnan(value):
        return ""
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def p_text(value: float) -> str:
    """Return a p-value for the middle of a sentence.

    Examples
    --------
    >>> p_text(0.0312), p_text(1e-9)
    ('p = 0.031', 'p < 0.0001')
    """
    text = pvalue(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def sort_value(value: float) -> str:
    """Return a number as text that JavaScript can sort by; missing values come first.

    Examples
    --------
    >>> sort_value(0.25), sort_value(float("inf")), sort_value(float("nan"))
    ('0.25', 'Infinity', '-Infinity')
    """
    if math.isfinite(value):
        return repr(float(value))
    return "Infinity" if value > 0 else "-Infinity"


def headline(audit: Audit, *, regions: bool = True) -> str:
    """Return a one-line summary of the audited data."""
    rule = RULES.get(audit.rule, f"rule {audit.rule}")
    text = f"{audit.task} task, {rule}, {audit.n_samples:,} rows"
    if not regions:
        return text
    text += f" ({audit.n_evaluated:,} evaluated), {_counted(len(audit.level_sets), 'level set')}"
    if is_blind(audit):
        return text
    return f"{text}, {_counted(len(audit.regions), 'region')} by {regions_by(audit)}"


def is_blind(audit: Audit) -> bool:
    """Return whether the audit had neither features nor subgroups."""
    return audit.region_source is RegionSource.NONE


def grouping_title(audit: Audit) -> str:
    """Return the title of the grouping loss, which says so if it is a lower bound."""
    return "grouping loss, at least" if audit.is_bound else "grouping loss"


def notes(audit: Audit) -> list[str]:
    """Return the remarks, without that on an unnamed index, which is obviously not a feature."""
    found: list[str] = [text for text in audit.remarks if _NAMELESS not in text]
    if audit.equal_rows is not None and not audit.equal_rows.agrees:
        found.append(str(audit.equal_rows))
    if audit.recalibrated is not None:
        new = [text for text in audit.recalibrated.remarks if text not in audit.remarks]
        found += [f"recalibrated: {text}" for text in new]
    return found


def terms(audit: Audit) -> list[tuple[str, str, str, str]]:
    """Return the terms of the grouping loss: title, number, interval and p-value of each."""
    lines, spec = [], loss_spec(audit.score.value)
    bounds = (
        ("cross-fitted, without bins", audit.crossfit_bound),
        ("explained by the regions", audit.partition_bound),
    )
    if audit.twin_estimate is not None and audit.at_least is not None:
        shown = number(audit.at_least, spec), "", pvalue(audit.grouping_loss.pvalue)
        lines.append((lower_limit_title(audit), *shown))
    for title, bound in bounds:
        if bound is not None:
            shown = number(bound.value, spec), interval(bound, spec), pvalue(bound.pvalue)
            lines.append((title, *shown))
    plain = (
        ("= plugin", audit.plugin),
        ("- bias of small regions", audit.bias),
        ("- induced by binning", audit.induced),
        ("upper limit", audit.bounds.grouping_loss_high),
        (DETECTABLE_TITLE, audit.smallest_detectable),
    )
    return lines + [(title, number(value, spec), "", "") for title, value in plain if value is not None]


def recalibration(audit: Audit) -> list[str]:
    """Say in a few sentences what recalibration can and cannot fix."""
    unit = RULES.get(audit.rule, "score")
    bound = audit.is_bound
    grouping = "The grouping loss, which cannot be estimated without features or subgroups, "
    if not is_blind(audit) or not bound:
        grouping = f"The grouping loss, here {_amount(audit.grouping_loss, audit, bound=bound)}, "
    removed = _amount(audit.calibration_loss, audit)
    texts = [
        "Recalibration replaces each score by the rate of the outcome at that score. It can remove the "
        f"calibration loss, here {removed}, and nothing else.",
        f"{grouping}remains: rows with equal scores get equal new scores, so the differences between "
        "them are still ignored. To reduce it, repair the scores with the features, or use better "
        "features or another model.",
    ]
    again = audit.recalibrated
    if again is not None:
        way = audit.options["recalibrate"]
        change = again.score.value - audit.score.value
        spec = loss_spec(audit.score.value, again.score.value)
        if math.isfinite(change):
            better = "better" if change < 0 else "worse"
            texts.append(
                f"With {way} recalibration, fitted on other rows, the {unit} changed from "
                f"{number(audit.score.value, spec)} to {number(again.score.value, spec)}, "
                f"{number(abs(change), spec)} {better}. Recalibration also changes the level sets, so "
                "the estimates of the grouping loss before and after it need not be equal."
            )
    return texts


def call(audit: Audit, baseline: str | None = None) -> list[str]:
    """Return the lines of the Python call that reproduces the audit; ``...`` stands for objects.

    With a baseline, it is the call that compares models with it.
    """
    function, first = ("audit", "y_true, y_prob") if baseline is None else ("compare", "y_true, models")
    arguments = _data_arguments(audit)
    if arguments[:1] == ["X"]:
        first = f"{first}, {arguments.pop(0)}"
    named = [] if baseline is None else [f"baseline={baseline!r}"]
    arguments = [first, *named, *arguments, *_option_arguments(audit)]
    lines = [f"    {argument}," for argument in arguments]
    return ["import epiloss", "", f"epiloss.{function}(", *lines, ")"]


def versions() -> dict[str, str]:
    """Return the versions of the packages that the numbers depend on."""
    import sklearn

    from epiloss import __version__

    return {
        "epiloss": __version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }


def options_shown(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options as text, the seed last; of many classes, only the first ones."""
    shown = {
        name.replace("_", " "): _option(value)
        for name, value in options.items()
        if name not in ("classes", "random_state")
    }
    classes = list(options.get("classes", ()))
    if classes:
        more = f" and {len(classes) - 12:,} more" if len(classes) > 12 else ""
        shown["classes"] = ", ".join(map(str, classes[:12])) + more
    return shown | {"seed (random_state)": str(options["random_state"])}


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _option(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _amount(loss: Estimate, audit: Audit, *, bound: bool = False) -> str:
    shown = number(loss.value, loss_spec(audit.score.value))
    if not loss.value > 0:
        return f"estimated at {shown}"
    text = f"{'at least ' if bound else ''}{shown}"
    share = loss.value / audit.score.value if audit.score.value > 0 else math.nan
    return f"{text} ({share:.1%} of the score)" if math.isfinite(share) else text


def _data_arguments(audit: Audit) -> list[str]:
    """Return the arguments for the user's data."""
    if audit.details is None:
        return ["X"] if audit.region_source is RegionSource.LEARNED else []
    problem = audit.details.problem
    given = {
        "subgroups=subgroups": problem.subgroups or problem.groups,
        "sample_weight=sample_weight": problem.weights,
        "clusters=clusters": problem.clusters,
        "display=display": audit.details.display,
    }
    arguments = [] if problem.features is None else ["X"]
    arguments += [text for text, value in given.items() if value is not None]
    # The labels of a single score may be strings only if the positive one is named.
    is_named = problem.positive != len(problem.classes) - 1 or isinstance(problem.classes[-1], str)
    if audit.task == "binary" and is_named:
        arguments.append(f"pos_label={_literal(problem.classes[problem.positive])}")
    return arguments


def _option_arguments(audit: Audit) -> list[str]:
    """Return the task, the seed, and the options that differ from their defaults."""
    default, options = DEFAULTS, audit.options
    arguments = [f"task={audit.task!r}"]
    if audit.rule != "brier":
        arguments.append(f"rule={_literal(audit.rule) if audit.rule in RULES else '...'}")
    if options["n_bins"] != default["n_bins"]:
        arguments.append(f"n_bins={options['n_bins']!r}")
    for name in _SAME_AS_GIVEN:
        if options[name] != default[name]:
            arguments.append(f"{name}={options[name]!r}")
    if options["curve"] != "LocalLinear":
        known = options["curve"] in _CURVES
        arguments.append(f"curve={_CURVES[options['curve']]!r}" if known else "curve=...")
    for name, short_hands in _SHORT_HANDS.items():
        value = options[name]
        if value == default[name] or (name == "partition" and audit.region_source is not _LEARNED):
            continue
        arguments.append(f"{name}={value!r}" if value in short_hands else f"{name}=...")
    ratio = options["region_ratio"]
    usual = PAPER_REGION_RATIO if options["method"] == "paper" else Tree().region_ratio
    if ratio not in (None, usual) and audit.region_source is _LEARNED:
        arguments.append(f"partition=epiloss.partition.Tree({ratio!r})")
    if options["learner"] is not None:
        arguments.append("learner=...")
    return [*arguments, f"random_state={options['random_state']}"]


def _literal(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)
