"""``epiloss report``."""

from __future__ import annotations

import os
from typing import Any

import click

from epiloss.cli.command import Command, option
from epiloss.cli.finish import Written
from epiloss.cli.options import OUTPUT, force_option, page_options
from epiloss.cli.output import check_output

EXAMPLES = (
    "epiloss report audit.json                                  # writes audit.html",
    "epiloss report audit.json --report page.html --title 'Churn model, March'",
)


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("saved", type=click.Path(dir_okay=False))
@option(OUTPUT, "--json", "as_json", is_flag=True, help="Print JSON, in the schema of this version.")
@option(
    OUTPUT,
    "--report",
    type=click.Path(dir_okay=False),
    help="The page to write.  [default: SAVED, ending in .html]",
)
@page_options()[0]
@page_options()[1]
@force_option()
def report(saved: str, **options: Any) -> None:
    """Write a report page from SAVED, the JSON that another command wrote with --output.

    The page has no rows of the data, as the JSON has none.
    """
    from epiloss.analysis.saved import load_result

    if options["report"] is None and not options["as_json"]:
        options["report"] = f"{os.path.splitext(saved)[0]}.html"
    check_output(options, [saved])
    result = load_result(saved)
    written = Written.take({"output": None, **options})
    written.save(result)
    if written.as_json:
        written.show(result)
    if written.report:
        click.echo(f"Report written: {written.report}", err=True)
