"""Printed lines of a benchmark, which can be saved as a page, and verdicts on its targets."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from epiloss._saving import write_text


@dataclass(frozen=True)
class Verdict:
    """A target, whether it is met, and the result."""

    target: str
    met: bool
    found: str

    def __str__(self) -> str:
        return f"{'met   ' if self.met else 'MISSED'}  {self.target}: {self.found}"

    @classmethod
    def on_all(cls, target: str, failed: Sequence[str], total: int) -> Verdict:
        """Return the verdict on a target that every one of ``total`` cases must meet."""
        return cls(target, not failed, f"{len(failed)} of {total} fail{_in_brackets(failed)}")


@dataclass
class Report:
    """Prints text, and keeps it for a page."""

    printed: list[str] = field(default_factory=list)

    def print(self, text: str) -> None:
        """Print text of one or more lines."""
        print(text, flush=True)
        self.printed.append(text)

    def save(self, file: Path, introduction: str) -> None:
        """Write an introduction and the printed text as a page."""
        write_text(file, "\n".join([introduction, "```", *self.printed, "```", ""]))


def set_parser(description: str, sets: Sequence[str], output: str) -> argparse.ArgumentParser:
    """Return the parser of a benchmark on named data sets."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="one tiny simulation")
    parser.add_argument("--sets", nargs="+", choices=list(sets), metavar="NAME", help="default all")
    parser.add_argument("--output", type=Path, default=Path(output))
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "epiloss-benchmarks")
    parser.add_argument("--markdown", type=Path, help="also write the report to this file")
    return parser


def parsed(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the parsed options."""
    options = parser.parse_args(arguments)
    if options.quick and options.sets:
        parser.error("--quick uses a data set of its own and cannot be combined with --sets")
    return options


def _in_brackets(names: Sequence[str]) -> str:
    return f" ({'; '.join(names)})" if names else ""
