"""Options shared by several commands; their defaults are those of the Python calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from epiloss.cli.command import add_options, option

CHOICES = {  # copied from estimation/options.py, which would slow down --help
    "task": ["binary", "top-label", "classwise", "joint"],
    "rule": ["brier", "log"],
    "method": ["twin", "crossfit", "partition", "paper"],
    "strategy": ["uniform", "quantile"],
    "partition": ["tree", "stump", "kmeans"],
    "curve": ["local-linear", "isotonic", "lowess", "nearest"],
    "recalibrate": ["isotonic", "sigmoid", "temperature", "beta", "vector"],
}
_HELP = {
    "task": "Which probabilities to audit.  [default: binary; top-label for several classes]",
    "rule": "Proper scoring rule.  [default: brier]",
    "method": "Estimator of the grouping loss.  [default: twin]",
    "strategy": "Level sets of equal width (uniform) or equal size (quantile).  [default: uniform]",
    "partition": "How to learn regions.  [default: tree]",
    "curve": "Calibration curve.  [default: local-linear]",
    "recalibrate": "Also audit the scores after this recalibration.",
}
COLUMNS, ESTIMATE, FILES = "Columns", "Estimation", "Reading files"
OUTPUT, GATE, REPAIR, COSTS = "Output", "Gate", "Repair", "Costs"
_FILE = click.Path(dir_okay=False)


_NUMBERS: Mapping[str, tuple[type, str]] = {
    "n-bins": (int, "Number of level sets.  [default: 15]"),
    "region-ratio": (float, "Number of learning rows per region.  [default: 12]"),
    "split": (float, "Fraction of rows used for learning.  [default: 0.5]"),
    "repeats": (int, "Number of random splits to average over.  [default: 1]"),
    "confidence-level": (float, "Confidence level of intervals.  [default: 0.95]"),
    "tolerance": (
        float,
        "Smallest loss that matters, as a fraction of the base rate's score.  [default: 0.01]",
    ),
    "seed": (int, "Random seed.  [default: 0]"),
    "jobs": (int, "Number of threads or processes; -1 uses all cores."),
}
_IN_PYTHON = {"seed": "random_state", "jobs": "n_jobs"}


def estimation_options(command: Any) -> Any:
    """Add all options for the estimation."""
    return estimated_by(*CHOICES, *_NUMBERS)(command)


def estimated_by(*names: str) -> Callable[[Any], Any]:
    """Return a decorator that adds the named options for the estimation."""
    options = [
        option(ESTIMATE, f"--{name}", type=click.Choice(choices), help=_HELP[name])
        for name, choices in CHOICES.items()
        if name in names
    ]
    for name, (kind, text) in _NUMBERS.items():
        if name in names:
            python_name = filter(None, [_IN_PYTHON.get(name)])
            options.append(option(ESTIMATE, f"--{name}", *python_name, type=kind, help=text))
    return lambda command: add_options(options, command)


def column_options(
    *left_out: str, score: str | None = None, required: bool = True
) -> Callable[[Any], Any]:
    """Return a decorator that adds the options for columns, except those ``left_out``.

    ``score`` is the help of ``--score``. Label and score are ``required`` unless the command can find
    them in the data.
    """
    found = "" if required else "  [default: 'correct' or a similar name; logs need none]"
    options = {
        "label": {"required": required, "help": f"Column with the labels.{found}"},
        "score": None,
        "feature": {
            "multiple": True,
            "help": "Feature column. May be repeated.  [default: all other columns]",
        },
        "exclude": {"multiple": True, "help": "Column to ignore. May be repeated."},
        "subgroups": {
            "multiple": True,
            "help": "Column with subgroups (sex, hospital) to audit one by one. May be repeated.",
        },
        "weight": {"help": "Column with sample weights."},
        "clusters": {
            "help": "Column with the cluster (patient, user) of each row, if rows are dependent."
        },
        "display": {
            "multiple": True,
            "help": "Column to show for example rows of the report; not a feature. May be repeated.",
        },
        "pos-label": {"help": "Label of the positive class."},
        "class": {"multiple": True, "help": "Class of each score column, in order. May be repeated."},
        "drop-missing": {"is_flag": True, "help": "Leave out rows whose score or label is missing."},
        "logits": None,
        "row-id": {"help": "Column that identifies rows; not used as a feature."},
    }
    own_names = {"feature": "features", "weight": "sample_weight", "class": "classes"}
    complete = {"score": score_option(score, required=required), "logits": logits_option()}

    def one(name: str, attributes: Any) -> Any:
        if attributes is None:
            return complete[name]
        return option(COLUMNS, f"--{name}", *filter(None, [own_names.get(name)]), **attributes)

    chosen = [one(name, attributes) for name, attributes in options.items() if name not in left_out]
    return lambda command: add_options(chosen, command)


def score_option(text: str | None = None, *, required: bool = True) -> Callable[[Any], Any]:
    """Return the option for the score columns."""
    text = text or "Column with the scores. For several classes repeat it, or pass p0,p1 or 'p*'."
    text += "" if required else "  [default: 'confidence' or a similar name]"
    names = ("--score", "scores")
    return option(COLUMNS, *names, required=required, multiple=True, help=text)


def logits_option() -> Callable[[Any], Any]:
    """Return the option to convert logits."""
    text = "The scores are logits; convert them to probabilities."
    return option(COLUMNS, "--logits", is_flag=True, help=text)


def file_options(command: Any) -> Any:
    """Add the options for reading files in passes."""
    options = [
        option(
            FILES,
            "--engine",
            default="local",
            show_default=True,
            help="Engine that reads files: local, dask, spark or ray; add :ADDRESS for a cluster.",
        ),
        memory_option(),
        option(
            FILES,
            "--checkpoint",
            type=click.Path(file_okay=False),
            help="Folder for checkpoints, from which an interrupted run resumes.",
        ),
    ]
    return add_options(options, command)


def sql_option() -> Callable[[Any], Any]:
    """Return the option to query a database file."""
    text = "Query that selects the rows of a DuckDB or SQLite file."
    return option(FILES, "--sql", metavar="QUERY", help=text)


def memory_option() -> Callable[[Any], Any]:
    """Return the option to limit memory."""
    return option(FILES, "--memory", default="2GB", show_default=True, help="Memory limit.")


def output_options(command: Any) -> Any:
    """Add the options for the output of every command."""
    options = [
        json_option(),
        option(OUTPUT, "--output", type=_FILE, help="Also write the JSON to this file."),
        option(OUTPUT, "--report", type=_FILE, help="Also write an HTML report to this file."),
        *page_options(),
        force_option(),
    ]
    return add_options(options, command)


def json_option() -> Callable[[Any], Any]:
    """Return the option to print JSON."""
    return option(OUTPUT, "--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def page_options() -> list[Callable[[Any], Any]]:
    """Return the options for the header of a report."""
    return [
        option(OUTPUT, "--title", help="Title of the report."),
        option(OUTPUT, "--model", help="Name of the model, shown in the report."),
    ]


def force_option() -> Callable[[Any], Any]:
    """Return the option to overwrite files."""
    return option(OUTPUT, "--force", is_flag=True, help="Overwrite existing files.")


def metrics_option(command: Any) -> Any:
    """Add the option to print common metrics."""
    text = "Also print accuracy, AUC, ECE and other common metrics."
    return option(OUTPUT, "--metrics", is_flag=True, help=text)(command)


def cost_options(where: str = "", default: str = "1") -> Callable[[Any], Any]:
    """Return a decorator that adds the options for costs; ``where`` says where they are shown."""
    options = []
    for short, name in (("fp", "positive"), ("fn", "negative")):
        text = f"Cost of a false {name}{where}.  [default: {default}]"
        options.append(option(COSTS, f"--cost-{short}", type=float, help=text))
    return lambda command: add_options(options, command)


def repair_options(command: Any) -> Any:
    """Add the options to repair scores after the audit."""
    options = [
        option(
            REPAIR,
            "--repair",
            type=_FILE,
            help="Fit a repair on half of the rows, evaluate it on the other half, and write that half "
            "with its repaired scores to this file.",
        ),
        option(
            REPAIR,
            "--repair-method",
            type=click.Choice(["boosted", "regions"]),
            default="boosted",
            show_default=True,
            help="Correct scores by boosted trees or region by region.",
        ),
        option(REPAIR, "--save-repair", type=_FILE, help="Save the repair for epiloss apply (JSON)."),
    ]
    return add_options(options, command)


def gate_options(command: Any) -> Any:
    """Add the options that turn an audit into a gate."""
    options = [
        option(
            GATE,
            "--fail-above",
            multiple=True,
            metavar="[LOSS=]LIMIT",
            help="Exit with code 3 if a loss is significantly above LIMIT: the lower end of its "
            "interval exceeds it. LOSS is grouping (the default), calibration or score. May be "
            "repeated.",
        ),
        option(
            GATE,
            "--baseline",
            type=_FILE,
            help="JSON of an earlier audit (written by --output). Exit with code 3 if a loss is "
            "significantly larger than in that audit.",
        ),
        option(
            GATE,
            "--margin",
            type=float,
            help="Increase over the baseline to tolerate.  [default: 0]",
        ),
    ]
    return add_options(options, command)


def worse_option(text: str) -> Callable[[Any], Any]:
    """Return the option to fail the gate if something got worse."""
    return option(GATE, "--fail-worse", is_flag=True, help=f"Exit with code 3 if {text}.")
