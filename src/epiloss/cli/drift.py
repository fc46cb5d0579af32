"""``epiloss drift``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from epiloss._progress import stage, working
from epiloss.cli.command import Command
from epiloss.cli.finish import Check, Output, given_options, plain_checks, report_gate
from epiloss.cli.options import (
    column_options,
    estimated_by,
    memory_option,
    output_options,
    worse_option,
)
from epiloss.cli.output import check_output, named_files
from epiloss.cli.rows import read_rows, score_columns, take_columns

if TYPE_CHECKING:
    from epiloss.analysis.drift_result import Drift

EXAMPLES = (
    "epiloss drift last_year.parquet this_year.parquet --label y --score p",
    "epiloss drift last_year.csv this_year.csv --label y --score p --report drift.html --fail-worse",
)


@click.command(
    cls=Command, examples=EXAMPLES, short_help="Test whether losses changed between two files."
)
@click.argument("reference")
@click.argument("current")
@column_options("subgroups", "display")
@estimated_by(
    "task",
    "rule",
    "method",
    "strategy",
    "partition",
    "curve",
    "n-bins",
    "region-ratio",
    "split",
    "confidence-level",
    "seed",
    "jobs",
)
@memory_option()
@output_options
@worse_option("a loss is significantly larger than in the reference")
def drift(reference: str, current: str, scores: tuple[str, ...], **options: Any) -> None:
    """Test whether a model's losses changed between two files, REFERENCE and CURRENT.

    Regions are learned on the reference and used for both files. The p-values are valid for a single
    comparison; use epiloss track to monitor a model day after day.
    """
    from epiloss.analysis.drift import drift as run_drift

    check_output(options, named_files([reference, current]))
    output, worse = Output.take(options, [reference, current]), options.pop("fail_worse")
    memory, columns = options.pop("memory"), take_columns(options)
    with working("epiloss drift"):
        stage(f"reading {reference}")
        samples = []
        for file in (reference, current):
            names = score_columns([file], scores)
            rows = read_rows([file], names, columns, memory)
            samples.append(
                {
                    "y_true": rows.labels,
                    "y_prob": rows.scores(names),
                    **rows.data("X", "sample_weight", "clusters"),
                }
            )
        result = run_drift(*samples, **given_options(options))
        output.save(result)
        checks = _checks(result) if worse else ()
        output.show(result, gate=plain_checks(checks))
    report_gate(checks)


def _checks(result: Drift) -> Sequence[Check]:
    from epiloss.analysis.gate import Change, worse_checks

    changes = [Change(loss, one.value, one.stderr) for loss, one in result.difference.items()]
    return worse_checks(changes, result.confidence_level, "in the reference")
