"""``epiloss report``."""

from __future__ import annotations

import os
from typing import Any

import click

from epiloss.cli.command import Command, option
from epiloss.cli.finish import Output
from epiloss.cli.options import OUTPUT, force_option, page_options
from epiloss.cli.output import check_output

EXAMPLES = (
    "epiloss report audit.json                                  # writes audit.html",
    "epiloss report audit.json --report page.html --title 'Churn model, March'",
)


@click.command(cls=Command, examples=EXAMPLES, short_help="Write an HTML report from saved JSON.")
@click.argument("saved", type=click.Path(dir_okay=False))
@option(
    OUTPUT,
    "--json",
    "as_json",
    is_flag=True,
    help="Print the result as JSON, in the schema of this version.",
)
@option(
    OUTPUT,
    "--report",
    type=click.Path(dir_okay=False),
    help="Report to write.  [default: SAVED with the suffix .html]",
)
@page_options()[0]
@page_options()[1]
@force_option()
def report(saved: str, **options: Any) -> None:
    """Write an HTML report from SAVED, the JSON that another command wrote with --output.

    The JSON has no rows of the data, so the report shows no example rows.
    """
    from epiloss.analysis.saved import load_result

    if options["report"] is None and not options["as_json"]:
        options["report"] = f"{os.path.splitext(saved)[0]}.html"
    check_output(options, [saved])
    result = load_result(saved)
    output = Output.take({"output": None, **options})
    output.save(result)
    if output.as_json:
        output.show(result)
    if output.report:
        click.echo(f"Report written: {output.report}", err=True)
