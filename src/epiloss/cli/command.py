"""The commands' own class: help in groups with examples, and no option given twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

_OTHERS = "Other options"


class Option(click.Option):
    """An option with the group that the help lists it in."""

    def __init__(self, *declarations: Any, group: str = _OTHERS, **attributes: Any) -> None:
        super().__init__(*declarations, **attributes)
        self.group = group


def option(group: str, *names: str, **attributes: Any) -> Callable[[Any], Any]:
    """Return the decorator that adds an option to a command, in a group of its help."""
    return click.option(*names, cls=Option, group=group, **attributes)


def added(options: Sequence[Any], command: Any) -> Any:
    """Add options to a command, in their order."""
    for one in reversed(options):
        command = one(command)
    return command


class Command(click.Command):
    """A command whose help has groups and examples, and which refuses an option given twice."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Count how often each option is given before any is read."""
        order = self.make_parser(ctx).parse_args(args=list(args))[2]
        for one in self.get_params(ctx):
            repeatable = isinstance(one, click.Option) and (one.multiple or one.is_flag)
            if order.count(one) > 1 and not repeatable:
                raise click.UsageError(
                    f"{one.opts[0]} is given {order.count(one)} times, and takes one value.", ctx
                )
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the options group by group."""
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")
        groups: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is not None and isinstance(one, click.Option):
                groups.setdefault(getattr(one, "group", _OTHERS), []).append(record)
        last = groups.pop(_OTHERS, [])
        for title, records in [*groups.items(), *([(_OTHERS, last)] if last else [])]:
            with formatter.section(title):
                formatter.write_dl(records)
