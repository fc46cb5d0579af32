"""The options that commands share, in groups; what is not given has the default of the Python call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from epiloss.cli.command import added, option

CHOICES = {  # as in estimation/options.py and the like, which take too long to load for --help
    "task": ["binary", "top-label", "classwise", "joint"],
    "rule": ["brier", "log"],
    "method": ["twin", "crossfit", "partition", "paper"],
    "strategy": ["uniform", "quantile"],
    "partition": ["tree", "stump", "kmeans"],
    "curve": ["local-linear", "isotonic", "lowess", "nearest"],
    "recalibrate": ["isotonic", "sigmoid", "temperature", "beta", "vector"],
}
_HELP = {
    "task": "What a prediction claims.  [default: binary; top-label for several classes]",
    "rule": "Proper scoring rule.  [default: brier]",
    "method": "How the grouping loss is estimated.  [default: twin]",
    "strategy": "Level sets of equal width or of equal mass.  [default: uniform]",
    "partition": "How regions are learned.  [default: tree]",
    "curve": "Calibration curve.  [default: local-linear]",
    "recalibrate": "Also audit the recalibrated scores.",
}
COLUMNS, ESTIMATE, FILES = "Columns", "Estimation", "Reading files"
OUTPUT, GATE, REPAIR = "Output", "Gate", "Repair"
_FILE = click.Path(dir_okay=False)


_NUMBERS: Mapping[str, tuple[type, str]] = {
    "n-bins": (int, "Number of level sets of the score.  [default: 15]"),
    "region-ratio": (float, "Learning rows per region.  [default: 12]"),
    "split": (float, "Fraction of rows used for learning.  [default: 0.5]"),
    "repeats": (int, "Number of splits to average.  [default: 1]"),
    "confidence-level": (float, "Confidence level of intervals.  [default: 0.95]"),
    "tolerance": (
        float,
        "Losses matter from this share of the base rate's score on.  [default: 0.01]",
    ),
    "seed": (int, "Random seed.  [default: 0]"),
    "jobs": (int, "Threads or processes; -1 for all cores."),
}
_IN_PYTHON = {"seed": "random_state", "jobs": "n_jobs"}


def estimation_options(command: Any) -> Any:
    """Add all options that say how to estimate."""
    return estimated_by(*CHOICES, *_NUMBERS)(command)


def estimated_by(*names: str) -> Callable[[Any], Any]:
    """Return what adds some of the options that say how to estimate."""
    options = [
        option(ESTIMATE, f"--{name}", type=click.Choice(choices), help=_HELP[name])
        for name, choices in CHOICES.items()
        if name in names
    ]
    for name, (kind, text) in _NUMBERS.items():
        if name in names:
            called = filter(None, [_IN_PYTHON.get(name)])
            options.append(option(ESTIMATE, f"--{name}", *called, type=kind, help=text))
    return lambda command: added(options, command)


def column_options(
    *left_out: str, score: str | None = None, required: bool = True
) -> Callable[[Any], Any]:
    """Return what adds the options that name columns; ``score`` is the help of that option.

    Label and score are ``required`` unless they can be found in the data.
    """
    usual = "" if required else "  [default: of a log, or one with a usual name]"
    options = {
        "label": {"required": required, "help": f"Column of labels.{usual}"},
        "score": None,
        "feature": {
            "multiple": True,
            "help": "Column of features; default: all others. May be repeated.",
        },
        "exclude": {"multiple": True, "help": "Column to ignore. May be repeated."},
        "subgroups": {
            "multiple": True,
            "help": "Column of subgroups (sex, hospital) to audit by. May be repeated.",
        },
        "weight": {"help": "Column of sample weights."},
        "clusters": {"help": "Column of clusters (patients, users) of dependent rows."},
        "display": {
            "multiple": True,
            "help": "Column to show of rows in the report; not a feature.",
        },
        "pos-label": {"help": "Label of the positive class."},
        "class": {"multiple": True, "help": "Class of each score column, in order."},
        "drop-missing": {"is_flag": True, "help": "Leave out rows without a score or a label."},
        "logits": None,
        "row-id": {"help": "Column that identifies rows; not a feature."},
    }
    own_names = {"feature": "features", "weight": "sample_weight", "class": "classes"}
    whole = {"score": score_option(score, required=required), "logits": logits_option()}

    def one(name: str, attributes: Any) -> Any:
        if attributes is None:
            return whole[name]
        return option(COLUMNS, f"--{name}", *filter(None, [own_names.get(name)]), **attributes)

    chosen = [one(name, attributes) for name, attributes in options.items() if name not in left_out]
    return lambda command: added(chosen, command)


def score_option(text: str | None = None, *, required: bool = True) -> Callable[[Any], Any]:
    """Return the option for columns of scores."""
    text = text or "Column of scores; of several classes: repeat it, p0,p1 or 'p*'."
    names = ("--score", "scores")
    return option(COLUMNS, *names, required=required, multiple=True, help=text)


def logits_option() -> Callable[[Any], Any]:
    """Return the option for scores that are logits."""
    text = "Scores are logits: make them probabilities."
    return option(COLUMNS, "--logits", is_flag=True, help=text)


def file_options(command: Any) -> Any:
    """Add the options that say how files are read in passes."""
    options = [
        option(
            FILES,
            "--engine",
            default="local",
            show_default=True,
            help="Where files are read: local; dask, spark or ray, also with :ADDRESS.",
        ),
        memory_option(),
        option(
            FILES,
            "--checkpoint",
            type=click.Path(file_okay=False),
            help="Folder to resume from if killed.",
        ),
    ]
    return added(options, command)


def sql_option() -> Callable[[Any], Any]:
    """Return the option for the query of a database file."""
    text = "Query of a DuckDB or SQLite database file: its rows are read."
    return option(FILES, "--sql", metavar="QUERY", help=text)


def memory_option() -> Callable[[Any], Any]:
    """Return the option for the memory that data may take."""
    names = ("--memory",)
    return option(FILES, *names, default="2GB", show_default=True, help="Memory limit.")


def output_options(command: Any) -> Any:
    """Add the options that say what every command prints and writes."""
    options = [
        option(OUTPUT, "--json", "as_json", is_flag=True, help="Print JSON instead of text."),
        option(OUTPUT, "--output", type=_FILE, help="Also write the JSON here."),
        option(OUTPUT, "--report", type=_FILE, help="Also write a report page (HTML) here."),
        *page_options(),
        force_option(),
    ]
    return added(options, command)


def page_options() -> list[Callable[[Any], Any]]:
    """Return the options for the header of a page."""
    return [
        option(OUTPUT, "--title", help="Title of the report page."),
        option(OUTPUT, "--model", help="Name of the model, for the report page."),
    ]


def force_option() -> Callable[[Any], Any]:
    """Return the option to overwrite files."""
    return option(OUTPUT, "--force", is_flag=True, help="Overwrite existing files.")


def metrics_option(command: Any) -> Any:
    """Add the option to print familiar numbers too."""
    text = "Also print accuracy, AUC, ECE and other familiar metrics."
    return option(OUTPUT, "--metrics", is_flag=True, help=text)(command)


def repair_options(command: Any) -> Any:
    """Add the options that repair scores after the audit."""
    options = [
        option(
            REPAIR,
            "--repair",
            type=_FILE,
            help="Also repair on half of the rows, measure on the others and write these with their "
            "repaired scores here.",
        ),
        option(
            REPAIR,
            "--repair-method",
            type=click.Choice(["boosted", "regions"]),
            default="boosted",
            show_default=True,
            help="How the repair corrects scores.",
        ),
        option(REPAIR, "--save-repair", type=_FILE, help="Write the repair itself (JSON)."),
    ]
    return added(options, command)


def gate_options(command: Any) -> Any:
    """Add the options that make an audit a gate."""
    options = [
        option(
            GATE,
            "--fail-above",
            multiple=True,
            metavar="[LOSS=]LIMIT",
            help="Exit with code 3 if a loss (grouping; calibration=, score=) is significantly above "
            "a limit: the low end of its interval. May be repeated.",
        ),
        option(
            GATE,
            "--baseline",
            type=_FILE,
            help="JSON of an earlier audit (--output): exit with code 3 if a loss is significantly "
            "larger than there.",
        ),
        option(
            GATE,
            "--margin",
            type=float,
            help="How much larger than in the baseline a loss may be.  [default: 0]",
        ),
    ]
    return added(options, command)


def worse_option(text: str) -> Callable[[Any], Any]:
    """Return the option to exit with the gate's code where something got worse."""
    return option(GATE, "--fail-worse", is_flag=True, help=f"Exit with code 3 if {text}.")
