"""Progress of calls that take a while: on a terminal and in a notebook, silent in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Advance = Callable[[int], None]  # by so many rows


def is_shown(verbose: bool | None) -> bool:
    """Tell whether progress is shown: as asked, by default to people and not to pipes."""
    return (sys.stderr.isatty() or in_notebook()) if verbose is None else verbose


def in_notebook() -> bool:
    """Tell whether this runs in a Jupyter kernel."""
    shell: Any = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    return running is not None and hasattr(running, "kernel")


@contextmanager
def counted(what: str, n_rows: int | None, verbose: bool | None = None) -> Iterator[Advance]:
    """Show rows, rows a second and the time that is left."""
    if not is_shown(verbose):
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.table import Column
    from rich.text import Text

    class Rows(ProgressColumn):
        """Rows done, and rows a second."""

        def render(self, task: Task) -> Text:
            rate = f", {task.speed:,.0f}/s" if task.speed else ""
            of = f" of {int(task.total):,}" if task.total else ""
            return Text(f"{int(task.completed):,}{of} rows{rate}")

    rows = Rows(table_column=Column(no_wrap=True))
    columns = (TextColumn("{task.description}"), BarColumn(16), rows, TimeRemainingColumn())
    with Progress(*columns, console=_console(), transient=True) as bar:
        task = bar.add_task(what, total=n_rows)
        yield lambda rows: bar.advance(task, rows)


def _console() -> Any:
    from rich.console import Console

    return Console() if in_notebook() else Console(stderr=True)
