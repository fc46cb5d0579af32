"""Classes of the commands: help with groups and examples, and an error for repeated options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

_OTHERS = "Other options"


class Option(click.Option):
    """An option that belongs to a group of the help."""

    def __init__(self, *declarations: Any, group: str = _OTHERS, **attributes: Any) -> None:
        super().__init__(*declarations, **attributes)
        self.group = group


def option(group: str, *names: str, **attributes: Any) -> Callable[[Any], Any]:
    """Return a decorator that adds an option to a group of a command's help."""
    return click.option(*names, cls=Option, group=group, **attributes)


def add_options(options: Sequence[Any], command: Any) -> Any:
    """Add options to a command, in the given order."""
    for one in reversed(options):
        command = one(command)
    return command


class Group(click.Group):
    """A group that lists its commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in order."""
        return list(self.commands)


class Command(click.Command):
    """A command with examples and groups of options in its help; it refuses repeated options."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse options that are given more than once, unless they may be repeated."""
        order = self.make_parser(ctx).parse_args(args=list(args))[2]
        for one in self.get_params(ctx):
            repeatable = isinstance(one, click.Option) and (one.multiple or one.is_flag)
            if order.count(one) > 1 and not repeatable:
                raise click.UsageError(
                    f"{one.opts[0]} takes one value, got {order.count(one)}. Give it once.", ctx
                )
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples and then the options, group by group."""
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
