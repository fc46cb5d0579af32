"""The options of commands: those that say how to audit, and those that say what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

CHOICES = {  # as in estimation/options.py and the like, which take too long to load for --help
    "task": ["binary", "top-label", "classwise", "joint"],
    "rule": ["brier", "log"],
    "method": ["twin", "crossfit", "partition", "paper"],
    "strategy": ["uniform", "quantile"],
    "partition": ["tree", "stump", "kmeans"],
    "curve": ["local-linear", "isotonic", "lowess", "nearest"],
    "recalibrate": ["isotonic", "sigmoid", "temperature", "beta"],
}
_HELP = {
    "task": "What a prediction claims.",
    "rule": "Proper scoring rule.  [default: brier]",
    "method": "How the grouping loss is estimated.  [default: twin]",
    "strategy": "Level sets of equal width or of equal mass.  [default: uniform]",
    "partition": "How regions are learned.  [default: tree]",
    "curve": "Calibration curve.  [default: local-linear]",
    "recalibrate": "Also audit the recalibrated scores.",
}


class OnceCommand(click.Command):
    """A command that refuses an option that is given twice where only the last would count."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Count how often each option is given before any is read."""
        order = self.make_parser(ctx).parse_args(args=list(args))[2]
        for option in self.get_params(ctx):
            repeatable = isinstance(option, click.Option) and (option.multiple or option.is_flag)
            if order.count(option) > 1 and not repeatable:
                raise click.UsageError(
                    f"{option.opts[0]} is given {order.count(option)} times, and takes one value.", ctx
                )
        return super().parse_args(ctx, args)


def audit_options(command: Any) -> Any:
    """Add the options that every audit takes; what is not given has the default of the Python call."""
    options = [
        click.option(f"--{name}", type=click.Choice(choices), help=_HELP[name])
        for name, choices in CHOICES.items()
    ]
    options += [
        click.option("--n-bins", type=int, help="Number of level sets of the score.  [default: 15]"),
        click.option("--region-ratio", type=float, help="Learning rows per region.  [default: 12]"),
        click.option("--split", type=float, help="Fraction of rows used for learning.  [default: 0.5]"),
        click.option("--repeats", type=int, help="Number of splits to average.  [default: 1]"),
        click.option(
            "--confidence-level", type=float, help="Confidence level of intervals.  [default: 0.95]"
        ),
        click.option(
            "--tolerance",
            type=float,
            help="Losses matter from this share of the base rate's score on.  [default: 0.01]",
        ),
        click.option("--seed", "random_state", type=int, help="Random seed.  [default: 0]"),
        click.option("--jobs", "n_jobs", type=int, help="Threads or processes; -1 for all cores."),
    ]
    return _added([*options, *_written()], command)


def column_options(command: Any) -> Any:
    """Add the options that name columns of a table."""
    return _added(
        [
            click.option("--label", required=True, help="Column of labels."),
            score_option(),
            click.option(
                "--feature",
                "features",
                multiple=True,
                help="Column of features; default: all others. May be repeated.",
            ),
            click.option("--exclude", multiple=True, help="Column to ignore. May be repeated."),
            click.option(
                "--subgroups",
                multiple=True,
                help="Column of subgroups (sex, hospital) to audit by. May be repeated.",
            ),
            click.option("--weight", "sample_weight", help="Column of sample weights."),
            click.option("--clusters", help="Column of clusters (patients, users) of dependent rows."),
            click.option(
                "--display", multiple=True, help="Column to show of rows in the report; not a feature."
            ),
            click.option("--pos-label", help="Label of the positive class."),
            click.option(
                "--class", "classes", multiple=True, help="Class of each score column, in order."
            ),
            click.option(
                "--drop-missing", is_flag=True, help="Leave out rows without a score or a label."
            ),
            logits_option(),
            click.option("--row-id", help="Column that identifies rows; not a feature."),
        ],
        command,
    )


def score_option() -> Callable[[Any], Any]:
    """Return the option for columns of scores."""
    return click.option(
        "--score",
        "scores",
        required=True,
        multiple=True,
        help="Column of scores; of several classes: repeat it, p0,p1 or 'p*'.",
    )


def logits_option() -> Callable[[Any], Any]:
    """Return the option for scores that are logits."""
    return click.option("--logits", is_flag=True, help="Scores are logits: make them probabilities.")


def _written() -> list[Any]:
    """Return the options that say what is printed and written."""
    return [
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the ledger."),
        click.option("--output", type=click.Path(dir_okay=False), help="Also write the JSON here."),
        click.option(
            "--report", type=click.Path(dir_okay=False), help="Also write a report page (HTML) here."
        ),
        click.option(
            "--repair",
            type=click.Path(dir_okay=False),
            help="Also repair on half of the rows, measure on the others and write their scores here.",
        ),
        click.option(
            "--repair-method",
            type=click.Choice(["boosted", "regions"]),
            default="boosted",
            show_default=True,
            help="How the repair corrects scores.",
        ),
        click.option(
            "--save-repair", type=click.Path(dir_okay=False), help="Write the repair itself (JSON)."
        ),
        click.option(
            "--fail-above",
            multiple=True,
            metavar="[LOSS=]LIMIT",
            help="Exit with code 3 if a loss (grouping; calibration=, score=) is significantly above "
            "a limit: the low end of its interval. May be repeated.",
        ),
        click.option("--force", is_flag=True, help="Overwrite existing files."),
    ]


def _added(options: list[Any], command: Any) -> Any:
    for option in reversed(options):
        command = option(command)
    return command
