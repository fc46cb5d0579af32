"""How a report says things: numbers, the ledger's lines, the method, and the call that repeats it."""

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
from epiloss.auditing.ledger import regions_by
from epiloss.auditing.result import Audit
from epiloss.calibration.recalibrators import RECALIBRATORS
from epiloss.estimate import Estimate, percent
from epiloss.estimation.options import DEFAULTS, PAPER_REGION_RATIO
from epiloss.input.problem import RegionSource
from epiloss.number_format import loss_spec, rate_spec
from epiloss.partition import Tree

BADGES = {
    FINE: ("✓", "Fine"),
    SMALL: ("✓", "Present but small"),
    BORDERLINE: ("~", "Borderline"),
    RECALIBRATE: ("↻", "Recalibrate"),
    REPAIR: ("!", "Repair or retrain"),
    BOTH: ("!", "Recalibrate and repair"),
    UNCLEAR: ("?", "Not clear"),
    LEAK: ("!", "Check for a leak"),
}
RULES = {"brier": "Brier score", "log": "log-loss"}
LEDGER = (
    ("score", "score", "mean loss of the probabilities; lower is better"),
    ("calibration_loss", "= calibration loss", "what a better map of the score alone can remove"),
    ("grouping_loss", "+ grouping loss", "what stays wrong among rows of equal score"),
    ("remainder", "+ remainder", "noise that no model can remove, and grouping loss that was not seen"),
)
_CURVES = {
    "LocalLinear": "local-linear",
    "Isotonic": "isotonic",
    "Lowess": "lowess",
    "Nearest": "nearest",
}
_LEARNED = RegionSource.LEARNED
_NAMELESS = "__index_level_"  # how the names of such columns begin
_RATES = ("score_mean", "label_mean", "expected")  # of a region
_SAME_AS_GIVEN = ("strategy", "split", "repeats", "method", "adjust", "confidence_level", "tolerance")
_SHORT_HANDS = {"partition": ("stump", "kmeans"), "recalibrate": tuple(RECALIBRATORS)}


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
    """Return a rate of a region, in the digits that its score and rates need."""
    return number(value, rate_spec(*(float(row[name]) for name in _RATES)))


def share(value: float) -> str:
    """Return a share in per cent.

    Examples
    --------
    >>> share(0.01)
    '1%'
    """
    return percent(value)


def pvalue(value: float | None) -> str:
    """Return a p-value in two digits.

    Examples
    --------
    >>> pvalue(0.0312), pvalue(1e-9), pvalue(1.0)
    ('0.031', '< 0.0001', '1')
    """
    if value is None or math.isnan(value):
        return ""
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def sort_value(value: float) -> str:
    """Return a number as a script reads it, to sort by; one that is missing is the least.

    Examples
    --------
    >>> sort_value(0.25), sort_value(float("inf")), sort_value(float("nan"))
    ('0.25', 'Infinity', '-Infinity')
    """
    if math.isfinite(value):
        return repr(float(value))
    return "Infinity" if value > 0 else "-Infinity"


def headline(audit: Audit, *, regions: bool = True) -> str:
    """Return what was audited in one line."""
    rule = RULES.get(audit.rule, f"rule {audit.rule}")
    text = f"{audit.task} task, {rule}, {audit.n_samples:,} rows"
    if not regions:
        return text
    text += f" ({audit.n_evaluated:,} evaluated), {_counted(len(audit.level_sets), 'level set')}"
    if is_blind(audit):
        return text
    return f"{text}, {_counted(len(audit.regions), 'region')} by {regions_by(audit)}"


def is_blind(audit: Audit) -> bool:
    """Tell whether there was nothing, neither features nor subgroups, to look for regions in."""
    return audit.region_source is RegionSource.NONE


def grouping_title(audit: Audit) -> str:
    """Return the name of the grouping loss, which repeated labels measure and others bound."""
    return "grouping loss, at least" if audit.is_bound else "grouping loss"


def notes(audit: Audit) -> list[str]:
    """Return what to be aware of; that an index without a name is no feature goes without saying."""
    found: list[str] = [text for text in audit.remarks if _NAMELESS not in text]
    if audit.recalibrated is not None:
        new = [text for text in audit.recalibrated.remarks if text not in audit.remarks]
        found += [f"recalibrated: {text}" for text in new]
    return found


def terms(audit: Audit) -> list[tuple[str, str, str, str]]:
    """Return how the grouping loss was bounded: a title, a number, its interval, its p-value."""
    lines, spec = [], loss_spec(audit.score.value)
    bounds = (
        ("cross-fitted, without bins", audit.crossfit_bound),
        ("explained by the regions", audit.partition_bound),
    )
    if audit.twin_estimate is not None and audit.at_least is not None:
        sure = f"at least, {percent(audit.confidence_level)} sure"
        lines.append((sure, number(audit.at_least, spec), "", pvalue(audit.twin_estimate.pvalue)))
    for title, bound in bounds:
        if bound is not None:
            shown = number(bound.value, spec), interval(bound, spec), pvalue(bound.pvalue)
            lines.append((title, *shown))
    plain = (
        ("= plugin", audit.plugin),
        ("- bias of small regions", audit.bias),
        ("- induced by binning", audit.induced),
        ("at most", audit.bounds.grouping_loss_high),
    )
    return lines + [(title, number(value, spec), "", "") for title, value in plain]


def recalibration(audit: Audit) -> list[str]:
    """Say what recalibration would and would not fix, in a few sentences."""
    unit = RULES.get(audit.rule, "score")
    bound = audit.is_bound
    grouping = "The grouping loss, which cannot be estimated without features or subgroups, "
    if not is_blind(audit) or not bound:
        grouping = f"The grouping loss, here {_amount(audit.grouping_loss, audit, bound=bound)}, "
    removed = _amount(audit.calibration_loss, audit)
    texts = [
        "Recalibration replaces each score by the rate at which the outcome occurs at that score. It "
        f"can remove the calibration loss, here {removed}, and nothing else.",
        f"{grouping}stays: rows of equal score get equal new scores, so whatever distinguishes them is "
        "still ignored. To reduce it, correct the scores by region, or use better features or another "
        "model.",
    ]
    again = audit.recalibrated
    if again is not None:
        way = audit.options["recalibrate"]
        change = again.score.value - audit.score.value
        spec = loss_spec(audit.score.value, again.score.value)
        if math.isfinite(change):
            better = "better" if change < 0 else "worse"
            texts.append(
                f"Measured with {way} recalibration, learned on other rows: the {unit} went from "
                f"{number(audit.score.value, spec)} to {number(again.score.value, spec)}, "
                f"{number(abs(change), spec)} {better}. After it, what the regions find is relative to "
                "the new level sets, so the two lower bounds need not be equal."
            )
    return texts


def call(audit: Audit, baseline: str | None = None) -> list[str]:
    """Return the lines of the Python call that repeats the audit; ``...`` stands for your objects.

    With a baseline it is the call that compares models with it.
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
    """Return the versions that the numbers depend on."""
    import sklearn

    from epiloss import __version__

    return {
        "epiloss": __version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }


def options_shown(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options in words, the seed last; classes only where they are few."""
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
        return f"none that could be measured ({shown})"
    text = f"{'at least ' if bound else ''}{shown}"
    share = loss.value / audit.score.value if audit.score.value > 0 else math.nan
    return f"{text} ({share:.1%} of the score)" if math.isfinite(share) else text


def _data_arguments(audit: Audit) -> list[str]:
    """Return the arguments that stand for columns of the user's data."""
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
    if audit.task == "binary" and problem.positive != len(problem.classes) - 1:
        arguments.append(f"pos_label={_literal(problem.classes[problem.positive])}")
    return arguments


def _option_arguments(audit: Audit) -> list[str]:
    """Return the options that are not what they are by default, with the task and the seed."""
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
