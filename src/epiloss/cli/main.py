"""The command line: results on the standard output, everything else on the standard error.

Exit codes: 0 done, 1 crash, 2 wrong usage, 3 a loss above its limit, 4 bad data or an output that
cannot be written, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from epiloss.cli.interrupts import interruptible
from epiloss.cli.options import OnceCommand, audit_options, column_options, logits_option, score_option
from epiloss.cli.output import check_output, named_files, repaired, show, write
from epiloss.cli.wording import SWITCHES, spoken
from epiloss.errors import DataError, MissingExtraError, NoColumnError, OptionError, printable

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit

EXIT_CRASH, EXIT_USAGE, EXIT_GATE, EXIT_DATA, EXIT_STOPPED = 1, 2, 3, 4, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="epiloss")
def cli() -> None:
    """Measure how far a classifier's probabilities are from the truth."""


@cli.command(cls=OnceCommand)
@click.argument("files", nargs=-1, required=True)
@column_options
@click.option(
    "--engine",
    default="local",
    show_default=True,
    help="Where files are read: local; dask, spark or ray, also with :ADDRESS.",
)
@click.option("--memory", default="2GB", show_default=True, help="Memory limit.")
@click.option("--checkpoint", type=click.Path(file_okay=False), help="Folder to resume from if killed.")
@audit_options
def audit(files: tuple[str, ...], scores: tuple[str, ...], **options: Any) -> None:
    """Audit the scores in FILES: Parquet, CSV, JSON lines, Arrow, NPZ; - for the standard input.

    Folders, also of Delta and Iceberg tables, and patterns are read too.
    Tables are read in passes, so they may be larger than memory.
    """
    from epiloss.streaming.run import audit_table

    check_output(options, named_files(files))
    source, names = _opened(files, scores)
    for name in ("features", "classes"):
        options[name] = list(options[name]) or None
    _run(options, lambda chosen: audit_table(source, score=names, **chosen), names=tuple(names))


def _opened(files: tuple[str, ...], scores: tuple[str, ...]) -> tuple[Any, list[str]]:
    """Return the files, or the table of what can be read only once, and its columns of scores."""
    from epiloss.sources.tables import named_columns
    from epiloss.sources.whole_files import read_whole

    alone = read_whole(files[0]) if len(files) == 1 else None
    source = list(files) if alone is None else alone
    return source, named_columns(source, scores, "score")


@cli.command(cls=OnceCommand)
@click.argument("repair", type=click.Path(dir_okay=False))
@click.argument("files", nargs=-1, required=True)
@score_option()
@click.option("--output", required=True, type=click.Path(dir_okay=False), help="The table to write.")
@logits_option()
@click.option("--force", is_flag=True, help="Overwrite the output.")
def apply(
    repair: str, files: tuple[str, ...], scores: tuple[str, ...], output: str, logits: bool, force: bool
) -> None:
    """Repair the scores in FILES by a saved REPAIR; the columns that it learned from must be there.

    Tables are read batch by batch, so they may be larger than memory.
    """
    from epiloss.repair import load_repair
    from epiloss.repair.apply_table import repair_table

    check_output({"output": output, "force": force}, [repair, *named_files(files)])
    loaded = load_repair(repair)
    tables, names = _opened(files, scores)
    written: list[int] = []
    write(output, lambda path: written.append(repair_table(loaded, tables, names, path, logits=logits)))
    click.echo(f"{written[0]:,} rows repaired: {output}", err=True)


@cli.command(cls=OnceCommand)
@audit_options
def demo(**options: Any) -> None:
    """Audit a logistic model of income on bundled census data."""
    from epiloss.auditing.run import audit as run_audit
    from epiloss.datasets import load_census_income

    check_output(options)
    data = load_census_income()
    options["recalibrate"] = options["recalibrate"] or "isotonic"
    click.echo(
        f"A logistic model of 'earns over $50,000' scored {len(data.y):,} people it had not seen\n"
        "(Census-Income, U.S. Current Population Survey 1994-95). How wrong are its probabilities?\n",
        err=True,
    )
    _run(options, lambda chosen: run_audit(data.y, data.scores, data.X, **chosen))


def main() -> None:
    """Run the command line, with one sentence and an exit code for what is wrong."""
    warnings.showwarning = _note
    try:
        with interruptible(main.__code__.co_filename):
            _answer()
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped.", err=True)
        sys.exit(EXIT_STOPPED)


def _answer() -> None:
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (OptionError, MissingExtraError) as error:
        _fail(error, EXIT_USAGE)
    except NoColumnError as error:
        _fail(error.named(SWITCHES), EXIT_DATA)
    except DataError as error:
        _let_go_of_output()  # it may be what is full
        _fail(error, EXIT_DATA)
    except BrokenPipeError:
        _let_go_of_output()  # the reader has gone
        sys.exit(EXIT_CRASH)
    except OSError as error:
        _let_go_of_output()
        _fail(error, EXIT_CRASH)


def _let_go_of_output() -> None:
    """Point the standard output elsewhere: to flush at exit what it could not take would fail again."""
    try:
        output = sys.stdout.fileno()
    except io.UnsupportedOperation:
        return  # which is no file, and is not flushed
    os.dup2(os.open(os.devnull, os.O_WRONLY), output)


def _note(message: Warning | str, *_: object, **__: object) -> None:
    """Say what a warning says, and nothing of where in the code it came from."""
    click.echo(f"note: {printable(spoken(str(message)))}", err=True)


def _run(
    options: dict[str, Any],
    run_audit: Callable[[dict[str, Any]], Audit],
    *,
    names: tuple[str, ...] = ("score",),
) -> None:
    from epiloss.analysis.gate import checks, read_limits

    as_json, output, report = (options.pop(name) for name in ("as_json", "output", "report"))
    repair = {name: options.pop(name) for name in ("repair", "save_repair", "repair_method")}
    options.pop("force")
    limits = read_limits(options.pop("fail_above"))
    result = run_audit(_chosen(options))
    for path, save in ((output, result.to_json), (report, result.to_html)):
        if path:
            write(path, save)
    loop = repaired(result, repair, names) if repair["repair"] or repair["save_repair"] else None
    gate = checks(result, limits)
    if as_json:
        plain = result.to_dict() | ({} if loop is None else {"repair": loop.to_dict()})
        plain |= {"gate": [one.to_dict() for one in gate]} if gate else {}
        show(json.dumps(plain, indent=1, allow_nan=False))
    else:
        lines = (str(result) if loop is None else f"{result}\n\n{loop}").splitlines()
        show("\n".join(spoken(one) if one.startswith("note: ") else one for one in lines))
    for one in gate:
        click.echo(f"Gate {'failed' if one.failed else 'passed'}: {one}", err=True)
    if any(one.failed for one in gate):
        sys.exit(EXIT_GATE)


def _chosen(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given; all others have the defaults of the Python call."""
    from epiloss.partition import Tree

    given = {name: value for name, value in options.items() if value is not None}
    ratio = given.pop("region_ratio", None)
    if ratio is not None and given.get("partition", "tree") == "tree":
        given["partition"] = Tree(ratio)
    return given


def _fail(error: Exception, code: int) -> None:
    click.echo(f"epiloss: {printable(spoken(str(error)))}", err=True)
    sys.exit(code)
