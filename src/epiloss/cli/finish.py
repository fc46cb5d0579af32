"""The last steps of every command: print the result, write files and set the exit code."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import click

from epiloss._progress import paused, stage
from epiloss.cli.output import show, write
from epiloss.cli.wording import with_switches

EXIT_CRASH, EXIT_USAGE, EXIT_GATE, EXIT_DATA, EXIT_STOPPED = 1, 2, 3, 4, 130
_LINES_WITH_OPTIONS = ("note: ", "Left out: ")  # these lines name Python options
_MORE = re.compile(r"^(  and [\d,]+ more: )result\.\w+$")  # the rest of a table that is cut


class Result(Protocol):
    """The methods that all results share."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""

    def to_json(self, path: Any = None) -> str:
        """Return JSON, and write it if a path is given."""

    def to_html(self, path: Any = None, **header: Any) -> str:
        """Return an HTML page, and write it if a path is given."""


class Check(Protocol):
    """One comparison of a gate."""

    @property
    def failed(self) -> bool:
        """Whether the gate fails."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""


@dataclass(frozen=True)
class Output:
    """Where a result is printed and written."""

    as_json: bool
    output: str | None
    report: str | None
    header: dict[str, Any]

    @classmethod
    def take(
        cls,
        options: dict[str, Any],
        files: Sequence[str] = (),
        sections: Mapping[str, Any] | None = None,
    ) -> Output:
        """Remove the output options; ``files`` are the inputs, ``sections`` options of the report."""
        options.pop("force", None)
        header = {name: options.pop(name, None) for name in ("title", "model")}
        header["data"] = ", ".join(map(os.path.basename, files)) or None
        header["command"] = (click.get_current_context().obj or {}).get("command")
        given = {name: text for name, text in header.items() if text is not None}
        files_written = options.pop("output"), options.pop("report")
        return cls(options.pop("as_json"), *files_written, {**given, **(sections or {})})

    def save(self, result: Result) -> None:
        """Write the JSON and the report."""
        if self.output:
            stage(f"writing {self.output}")
            write(self.output, result.to_json)
        if self.report:
            stage(f"writing {self.report}")
            shown = _with_switches_in_remarks(result)
            write(self.report, lambda path: shown.to_html(path, **self.header))

    def show(self, result: Result, *others: Any, **further: Any) -> None:
        """Print the result with ``others`` as text, or with the ``further`` keys as JSON."""
        if self.as_json:
            plain = result.to_dict() | {name: part for name, part in further.items() if part}
            text = json.dumps(plain, indent=1, allow_nan=False)
        else:
            lines = "\n\n".join(str(one) for one in (result, *others) if one is not None).splitlines()
            text = "\n".join(map(_for_command_line, lines))
        with paused():
            show(text)


def _with_switches_in_remarks(result: Any) -> Any:
    """Return a result whose remarks name the switches of the command line."""
    remarks = getattr(result, "remarks", ())
    if not remarks:
        return result
    worded = tuple(one.with_text(with_switches(one)) for one in remarks)
    return replace(result, remarks=worded)


def _for_command_line(line: str) -> str:
    """Replace the names of Python options and attributes in a printed line."""
    line = _MORE.sub(r"\1--json or --report", line)
    return with_switches(line) if line.startswith(_LINES_WITH_OPTIONS) else line


def report_gate(checks: Sequence[Check]) -> None:
    """Print the outcome of each check, and exit with the gate's code if one failed."""
    with paused():
        for one in checks:
            click.echo(f"Gate {'failed' if one.failed else 'passed'}: {one}", err=True)
    if any(one.failed for one in checks):
        sys.exit(EXIT_GATE)


def given_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given; all others keep the defaults of the Python call."""
    from epiloss.partition import Tree

    several = ("features", "classes")
    options = {name: (list(one) or None) if name in several else one for name, one in options.items()}
    given = {name: value for name, value in options.items() if value is not None}
    ratio = given.pop("region_ratio", None)
    if ratio is not None and given.get("partition", "tree") == "tree":
        given["partition"] = Tree(ratio)
    return given


def plain_checks(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """Return the checks as plain values for JSON."""
    return [one.to_dict() for one in checks]
