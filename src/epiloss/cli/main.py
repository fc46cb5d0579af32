"""The command line: results on the standard output, everything else on the standard error.

Exit codes: 0 done, 1 crash, 2 wrong usage, 3 a gate failed, 4 bad data or an output that cannot be
written, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
import warnings

import click

from epiloss._progress import paused
from epiloss.cli.apply import apply
from epiloss.cli.audit import audit, demo
from epiloss.cli.compare import compare
from epiloss.cli.drift import drift
from epiloss.cli.finish import EXIT_CRASH, EXIT_DATA, EXIT_STOPPED, EXIT_USAGE
from epiloss.cli.interrupts import interruptible
from epiloss.cli.regret import regret
from epiloss.cli.report import report
from epiloss.cli.track import track
from epiloss.cli.wording import SWITCHES, spoken
from epiloss.errors import DataError, MissingExtraError, NoColumnError, OptionError, printable

COMMANDS = (demo, audit, compare, drift, track, regret, report, apply)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="epiloss")
def cli() -> None:
    """Measure how far a classifier's probabilities are from the truth."""


for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    """Run the command line, with one sentence and an exit code for what is wrong."""
    warnings.showwarning = _note
    try:
        with interruptible(os.path.dirname(main.__code__.co_filename)):
            _answer()
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped.", err=True)
        sys.exit(EXIT_STOPPED)


def _answer() -> None:
    try:
        said = shlex.join(["epiloss", *sys.argv[1:]])
        cli.main(standalone_mode=False, obj={"command": said})
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
    with paused():
        click.echo(f"note: {printable(spoken(str(message)))}", err=True)


def _fail(error: Exception, code: int) -> None:
    click.echo(f"epiloss: {printable(spoken(str(error)))}", err=True)
    sys.exit(code)
