"""How far a pass has come, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]  # by so many rows


@contextmanager
def progress(what: str, n_rows: int | None) -> Iterator[Advance]:
    """Show rows, rows a second and the time that is left."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
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
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=n_rows)
        yield lambda rows: bar.advance(task, rows)
