"""The command line: results on the standard output, everything else on the standard error.

Exit codes: 0 done, 1 crash, 2 wrong usage, 3 a loss above its limit, 4 bad data.
"""

from __future__ import annotations

import glob
import io
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from epiloss.errors import DataError, MissingExtraError, NoColumnError, OptionError, printable

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit
    from epiloss.repair.evaluate import RepairResult

EXIT_CRASH, EXIT_USAGE, EXIT_GATE, EXIT_DATA = 1, 2, 3, 4
# what arguments of the audit are called here
_OPTIONS = {
    "y_true": "--label",
    "y_prob": "--score",
    "features": "--feature",
    "sample_weight": "--weight",
    "pos_label": "--pos-label",
    "row_id": "--row-id",
    "n_jobs": "--jobs",
    "random_state": "--seed",
    "region_ratio": "--region-ratio",
    "drop_missing": "--drop-missing",
    "classes": "--class",
    "exclude": "--exclude",
}
# as options alone, not as words of a sentence
_SWITCHES = {
    **_OPTIONS,
    **{name: f"--{name}" for name in ("task", "groups", "clusters", "engine", "memory", "display")},
    **{name: f"--{name}" for name in ("logits", "method", "rule", "checkpoint", "recalibrate")},
}
_SPOKEN = re.compile(
    r"(?<!\w)'[^']*'"  # names of the data, which stay
    rf"|\b({'|'.join(_SWITCHES)})=(?:True\b|\[\.\.\.\])?"
    rf"|\b({'|'.join(name for name in _OPTIONS if '_' in name)})\b"
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="epiloss")
def cli() -> None:
    """How far a classifier's probabilities are from the truth."""


def _audit_options(command: Any) -> Any:
    """Add the options that every audit takes, however its data come in."""
    choices = {
        "--task": ["binary", "top-label", "classwise", "joint"],
        "--rule": ["brier", "log"],
        "--binning": ["uniform", "quantile"],
        "--partition": ["tree", "stump", "kmeans"],
        "--curve": ["local-linear", "isotonic", "lowess", "nearest"],
        "--recalibrate": ["isotonic", "sigmoid"],
        "--method": ["partition", "crossfit", "auto"],
    }
    options = [
        click.option("--task", type=click.Choice(choices["--task"]), help="What a prediction claims."),
        click.option("--rule", type=click.Choice(choices["--rule"]), default="brier", show_default=True),
        click.option("--bins", type=int, default=15, show_default=True, help="Level sets of the score."),
        click.option("--binning", type=click.Choice(choices["--binning"]), default="uniform"),
        click.option(
            "--partition",
            type=click.Choice(choices["--partition"]),
            default="tree",
            show_default=True,
            help="How regions are learned.",
        ),
        click.option(
            "--region-ratio", type=float, default=12, show_default=True, help="Rows per region."
        ),
        click.option("--curve", type=click.Choice(choices["--curve"]), help="The calibration curve."),
        click.option(
            "--method",
            type=click.Choice(choices["--method"]),
            default="auto",
            show_default=True,
            help="The lower bound that leads the ledger.",
        ),
        click.option("--split", type=float, default=0.5, show_default=True, help="Part that learns."),
        click.option("--swap/--no-swap", default=True, help="Let the halves change places."),
        click.option("--repeats", type=int, default=1, show_default=True, help="Splits to average."),
        click.option(
            "--recalibrate",
            type=click.Choice(choices["--recalibrate"]),
            help="Audit the recalibrated scores too.",
        ),
        click.option("--seed", "random_state", type=int, default=0, show_default=True),
        click.option("--jobs", "n_jobs", type=int, default=None, help="Threads; -1 for all cores."),
        *_written(),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _written() -> list[Any]:
    """Return the options that say what is printed and written."""
    return [
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the ledger."),
        click.option("--output", type=click.Path(dir_okay=False), help="Also write the JSON here."),
        click.option(
            "--report", type=click.Path(dir_okay=False), help="Also write a page to look at (HTML)."
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
        ),
        click.option(
            "--save-repair", type=click.Path(dir_okay=False), help="Write the repair itself (JSON)."
        ),
        click.option(
            "--fail-above",
            multiple=True,
            metavar="[LOSS=]LIMIT",
            help="Exit with code 3 if a loss (grouping; calibration=, score=) is above a limit beyond "
            "doubt: the low end of its interval. May be repeated.",
        ),
        click.option("--force", is_flag=True, help="Overwrite what is written."),
    ]


@cli.command()
@click.argument("files", nargs=-1, required=True)
@click.option("--label", required=True, help="Column of labels.")
@click.option(
    "--score", "scores", required=True, multiple=True, help="Column of scores; repeat per class."
)
@click.option("--feature", "features", multiple=True, help="Column of features; default: all others.")
@click.option("--exclude", multiple=True, help="Column that is no feature.")
@click.option("--groups", help="Column of groups, audited instead of learned regions.")
@click.option("--weight", "sample_weight", help="Column of sample weights.")
@click.option("--clusters", help="Column of clusters (patients, users) whose rows depend on each other.")
@click.option("--display", multiple=True, help="Column to show of rows in the report: no feature.")
@click.option("--pos-label", help="The label of the positive class.")
@click.option("--class", "classes", multiple=True, help="Class of each score column, in order.")
@click.option("--drop-missing", is_flag=True, help="Leave out rows without a score or a label.")
@click.option("--logits", is_flag=True, help="Scores are logits: make them probabilities.")
@click.option("--row-id", help="Column that tells rows apart: no feature.")
@click.option(
    "--engine",
    default="local",
    show_default=True,
    help="Where files are read: local; dask, spark or ray, also with :ADDRESS.",
)
@click.option("--memory", default="2GB", show_default=True, help="What the audit may take.")
@click.option("--checkpoint", type=click.Path(file_okay=False), help="Folder to go on from if killed.")
@_audit_options
def audit(files: tuple[str, ...], label: str, scores: tuple[str, ...], **options: Any) -> None:
    """Audit the scores in FILES (Parquet, CSV, Arrow; folders and patterns of them; NPZ; - for stdin).

    Tables are read in passes, so that they may be larger than memory.
    """
    from epiloss.sources.whole_files import read_whole

    _check_output(options, _named_files(files))
    alone = read_whole(files[0]) if len(files) == 1 else None
    options["exclude"] = list(options["exclude"])
    for name in ("features", "display", "classes"):
        options[name] = list(options[name]) or None
    _run(
        options,
        names=scores,
        y_true=label,
        y_prob=list(scores),
        X=list(files) if alone is None else alone,
    )


@cli.command()
@click.argument("repair", type=click.Path(dir_okay=False))
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--score", "scores", required=True, multiple=True, help="Column of scores; repeat per class."
)
@click.option("--output", required=True, type=click.Path(dir_okay=False), help="The table to write.")
@click.option("--logits", is_flag=True, help="Scores are logits: make them probabilities.")
@click.option("--force", is_flag=True, help="Overwrite the output.")
def apply(
    repair: str, files: tuple[str, ...], scores: tuple[str, ...], output: str, logits: bool, force: bool
) -> None:
    """Repair the scores in FILES by a saved REPAIR; the columns that it learned from must be there.

    Tables are read batch by batch, so that they may be larger than memory.
    """
    from epiloss.repair import load_repair
    from epiloss.repair.apply_table import repair_table
    from epiloss.sources.whole_files import read_whole

    _check_output({"output": output, "force": force}, [repair, *_named_files(files)])
    loaded = load_repair(repair)
    alone = read_whole(files[0]) if len(files) == 1 else None
    tables = list(files) if alone is None else alone
    written: list[int] = []
    _write(
        output, lambda path: written.append(repair_table(loaded, tables, scores, path, logits=logits))
    )
    click.echo(f"{written[0]:,} rows repaired: {output}", err=True)


@cli.command()
@_audit_options
def demo(**options: Any) -> None:
    """Audit a logistic model of income on bundled census data."""
    from epiloss.datasets import load_census_income

    _check_output(options)
    data = load_census_income()
    options["recalibrate"] = options["recalibrate"] or "isotonic"
    click.echo(
        f"A logistic model of 'earns over $50,000' scored {len(data.y):,} people it had not seen\n"
        "(Census-Income, U.S. Current Population Survey 1994-95). How wrong are its probabilities?\n",
        err=True,
    )
    _run(options, y_true=data.y, y_prob=data.scores, X=data.X)


def main() -> None:
    """Run the command line, with one sentence and an exit code for what is wrong."""
    warnings.showwarning = _note
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("stopped.", err=True)
        sys.exit(130)
    except (OptionError, MissingExtraError) as error:
        _fail(error, EXIT_USAGE)
    except NoColumnError as error:
        _fail(error.named(_SWITCHES), EXIT_DATA)
    except DataError as error:
        _fail(error, EXIT_DATA)
    except BrokenPipeError:
        _let_go_of_output()  # the reader has gone
        sys.exit(EXIT_CRASH)
    except OSError as error:
        _let_go_of_output()  # it may be what is full
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
    click.echo(f"note: {printable(_spoken(str(message)))}", err=True)


def _run(options: dict[str, Any], *, names: tuple[str, ...] = ("score",), **data: Any) -> None:
    from epiloss.analysis.gate import checks, read_limits
    from epiloss.auditing.run import audit as run_audit

    as_json, output, report = (options.pop(name) for name in ("as_json", "output", "report"))
    repair = {name: options.pop(name) for name in ("repair", "save_repair", "repair_method")}
    options.pop("force")
    limits = read_limits(options.pop("fail_above"))
    options = {name: value for name, value in options.items() if value is not None}
    in_passes = isinstance(data["y_true"], str)  # which show how far they have come
    with nullcontext() if in_passes else _working(f"auditing {len(data['y_true']):,} rows"):
        result: Audit = run_audit(**data, **options)
    for path, write in ((output, result.to_json), (report, result.to_html)):
        if path:
            _write(path, write)
    loop = _repaired(result, repair, names) if repair["repair"] or repair["save_repair"] else None
    gate = checks(result, limits)
    if as_json:
        plain = result.to_dict() | ({} if loop is None else {"repair": loop.to_dict()})
        plain |= {"gate": [one.to_dict() for one in gate]} if gate else {}
        click.echo(json.dumps(plain, indent=1, allow_nan=False))
    else:
        lines = (str(result) if loop is None else f"{result}\n\n{loop}").splitlines()
        click.echo("\n".join(_spoken(one) if one.startswith("note: ") else one for one in lines))
    for one in gate:
        click.echo(f"gate {'failed' if one.failed else 'passed'}: {one}", err=True)
    if any(one.failed for one in gate):
        sys.exit(EXIT_GATE)


def _repaired(result: Audit, repair: Mapping[str, Any], scores: tuple[str, ...]) -> RepairResult:
    """Repair, measure, and write what was asked for."""
    from epiloss.repair import RegionRecalibrator
    from epiloss.sources.whole_files import write_table

    with _working("repairing"):
        loop = result.repair(RegionRecalibrator(repair["repair_method"], rule=result.rule))
    if repair["repair"]:
        columns = {"row": loop.rows, **_score_columns(scores, loop)}
        _write(repair["repair"], lambda path: write_table(path, columns))
    if repair["save_repair"]:
        _write(repair["save_repair"], loop.repair.save)
    return loop


def _score_columns(names: tuple[str, ...], loop: RepairResult) -> dict[str, Any]:
    """Return repaired scores under the names of the given ones."""
    scores, positive = loop.scores, loop.repair.positive_
    if len(names) == 1:
        columns = [scores]
    elif scores.ndim == 1:  # of two classes the positive one's is audited
        columns = [scores if k == positive else 1 - scores for k in range(2)]
    else:
        columns = list(scores.T)
    return {f"{name}_repaired": column for name, column in zip(names, columns, strict=True)}


def _write(path: str, write: Callable[[str], object]) -> None:
    try:
        write(path)
    except OSError as error:
        reason = error.strerror or str(error).rstrip(".")  # pyarrow gives no number
        raise DataError(f"cannot write {path!r}: {reason}. It is as it was before.") from error


def _check_output(options: Mapping[str, Any], inputs: Sequence[str] = ()) -> None:
    for path in (options.get(name) for name in ("output", "report", "repair", "save_repair")):
        if path and any(Path(one).exists() and _holds(one, path) for one in inputs):
            raise click.UsageError(f"{path!r} is read, and may not be written too. Name another file.")
        if path and Path(path).exists() and not options["force"]:
            raise click.UsageError(f"{path!r} exists already. Use --force to overwrite it.")
        if path and not Path(path).parent.is_dir():
            raise DataError(f"cannot write {path!r}: its folder does not exist. Make it first.")
    if options.get("groups") and (options.get("repair") or options.get("save_repair")):
        raise click.UsageError(
            "a repair learns from features, and --groups takes their place. Leave one of them out."
        )


def _named_files(names: Sequence[str]) -> list[str]:
    """Return files and folders that are named, also by patterns."""
    return [found for name in names for found in ([name] if Path(name).exists() else glob.glob(name))]


def _holds(given: str, path: str) -> bool:
    """Tell whether a file is the one that is given, or lies in the folder that is."""
    if not Path(path).exists():
        return False
    return os.path.samefile(given, path) or Path(given).resolve() in Path(path).resolve().parents


@contextmanager
def _working(what: str) -> Iterator[None]:
    """Show that work goes on, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} ..."):
        yield


def _spoken(text: str) -> str:
    """Return a sentence with the options of Python called as they are here.

    >>> _spoken("Pass drop_missing=True to leave such rows out; 'y_true=' is a name.")
    "Pass --drop-missing to leave such rows out; 'y_true=' is a name."
    >>> _spoken("y_true must hold two classes. Pass task='joint' or classes=[...].")
    "--label must hold two classes. Pass --task 'joint' or --class."
    """

    def option(found: re.Match[str]) -> str:
        switch, name = found.groups()
        if switch is None and name is None:
            return found.group()
        said = _SWITCHES[switch or name]
        next_sign = text[found.end() : found.end() + 1]
        value_follows = found.group().endswith("=") and next_sign.strip(" ,.;)")
        return f"{said} " if value_follows else said

    return _SPOKEN.sub(option, text)


def _fail(error: Exception, code: int) -> None:
    click.echo(f"epiloss: {printable(_spoken(str(error)))}", err=True)
    sys.exit(code)
