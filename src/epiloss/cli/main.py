"""The command line: results go to standard output, everything else to standard error.

Exit codes: 0 success, 1 unexpected error, 2 wrong usage, 3 a gate failed, 4 bad data or an output that
cannot be written, 130 interrupted by Ctrl-C.
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
from epiloss.cli.command import Group
from epiloss.cli.compare import compare
from epiloss.cli.drift import drift
from epiloss.cli.finish import EXIT_CRASH, EXIT_DATA, EXIT_STOPPED, EXIT_USAGE
from epiloss.cli.interrupts import interruptible
from epiloss.cli.regret import regret
from epiloss.cli.report import report
from epiloss.cli.track import track
from epiloss.cli.wording import SWITCHES, with_switches
from epiloss.errors import DataError, MissingExtraError, NoColumnError, OptionError, printable

COMMANDS = (demo, audit, compare, drift, track, regret, report, apply)


@click.group(
    cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="epiloss")
def cli() -> None:
    """Audit a classifier's probabilities: calibration loss, grouping loss, and where they are wrong.

    Try epiloss demo first, then epiloss audit on your own predictions.
    """


for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    """Run the command line; report an error in one sentence and set the exit code."""
    warnings.showwarning = _show_warning
    try:
        with interruptible(os.path.dirname(main.__code__.co_filename)):
            _run_command()
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped.", err=True)
        sys.exit(EXIT_STOPPED)


def _run_command() -> None:
    try:
        command_line = shlex.join(["epiloss", *sys.argv[1:]])
        cli.main(standalone_mode=False, obj={"command": command_line})
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (OptionError, MissingExtraError) as error:
        _fail(error, EXIT_USAGE)
    except NoColumnError as error:
        _fail(error.named(SWITCHES), EXIT_DATA)
    except DataError as error:
        _discard_output()  # standard output itself may be full
        _fail(error, EXIT_DATA)
    except BrokenPipeError:
        _discard_output()  # the reader of the pipe has exited
        sys.exit(EXIT_CRASH)
    except OSError as error:
        _discard_output()
        _fail(error, EXIT_CRASH)


def _discard_output() -> None:
    """Redirect standard output to the null device: flushing it at exit would fail a second time."""
    try:
        output = sys.stdout.fileno()
    except io.UnsupportedOperation:
        return  # standard output is not a file, so nothing is flushed at exit
    os.dup2(os.open(os.devnull, os.O_WRONLY), output)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print the text of a warning without the line of code that issued it."""
    with paused():
        click.echo(f"note: {printable(with_switches(str(message)))}", err=True)


def _fail(error: Exception, code: int) -> None:
    click.echo(f"epiloss: {printable(with_switches(str(error)))}", err=True)
    sys.exit(code)
