"""``epiloss regret``."""

from __future__ import annotations

from typing import Any

import click

from epiloss._progress import stage, working
from epiloss.cli.command import Command, option
from epiloss.cli.finish import Output, given_options
from epiloss.cli.options import (
    COSTS,
    column_options,
    cost_options,
    estimation_options,
    file_options,
    output_options,
)
from epiloss.cli.output import check_output, named_files, opened

EXAMPLES = (
    "epiloss regret predictions.csv --label y --score p --cost-fp 1 --cost-fn 5",
    "epiloss regret predictions.csv --label y --score p --threshold 0.3 --report costs.html",
)


@click.command(cls=Command, examples=EXAMPLES, short_help="Estimate the cost of decisions.")
@click.argument("files", nargs=-1, required=True)
@column_options()
@cost_options()
@option(
    COSTS,
    "--threshold",
    type=float,
    help="Act on scores of at least this value.  [default: optimal at these costs]",
)
@estimation_options
@file_options
@output_options
def regret(files: tuple[str, ...], scores: tuple[str, ...], **options: Any) -> None:
    """Estimate the cost of decisions by the scores, and what recalibration and repair would save.

    Costs are per row, in the units of --cost-fp and --cost-fn.
    """
    from epiloss.analysis.regret import regret as run_regret
    from epiloss.streaming.run import audit_table

    check_output(options, named_files(files))
    output = Output.take(options, files)
    names = ("cost_fp", "cost_fn", "threshold")
    costs = {name: options.pop(name) for name in names}
    with working("epiloss regret"):
        stage(f"reading {files[0]}")
        source, columns = opened(files, scores)
        audited = audit_table(source, score=columns, **given_options(options))
        stage("estimating what a repair would save")
        given = {name: one for name, one in costs.items() if one is not None}
        result = run_regret(audited, **given)
        output.save(result)
        output.show(result)
