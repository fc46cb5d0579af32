"""The header of a page: its title, facts about the model and data, and the command."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TypedDict

from epiloss.errors import OptionError


class About(TypedDict, total=False):
    """The optional keywords of ``to_html``."""

    title: str | None
    model: str | None
    data: str | None
    date: str | datetime.date | None
    command: str | None


@dataclass(frozen=True)
class Header:
    """The title of a page, its facts in the order shown, and the command that was run."""

    title: str
    facts: tuple[tuple[str, str], ...]
    command: str | None = None


def header_of(about: About, *, title: str, rows: str) -> Header:
    """Return the header of a page; ``title`` is the default title.

    The default date is today; an empty date is omitted.

    Examples
    --------
    >>> head = header_of({"model": "churn 3", "date": ""}, title="An audit", rows="2,000")
    >>> head.title, head.facts
    ('An audit', (('Model', 'churn 3'), ('Rows', '2,000')))
    """
    for name, value in about.items():
        if name not in About.__annotations__:
            known = ", ".join(About.__annotations__)
            raise OptionError(f"to_html has no option {name!r}. Its options are {known}.")
        if value is not None and not isinstance(value, str | datetime.date):
            raise OptionError(f"{name} must be a string, got {value!r}. Pass {name}='...'.")
    date = about.get("date")
    shown = datetime.date.today().isoformat() if date is None else str(date)
    facts = (
        ("Model", about.get("model")),
        ("Data", about.get("data")),
        ("Rows", rows),
        ("Date", shown),
    )
    given = tuple((name, value) for name, value in facts if value)
    return Header(about.get("title") or title, given, about.get("command"))
