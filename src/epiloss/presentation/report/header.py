"""The head of a page: its title, what was audited, and how to repeat it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TypedDict

from epiloss.errors import OptionError


class About(TypedDict, total=False):
    """What the caller of a page says about it; each part may be left out."""

    title: str | None
    model: str | None
    data: str | None
    date: str | datetime.date | None
    command: str | None


@dataclass(frozen=True)
class Header:
    """The title of a page, facts in the order in which they are shown, and the command that was run."""

    title: str
    facts: tuple[tuple[str, str], ...]
    command: str | None = None


def header_of(about: About, *, title: str, rows: str) -> Header:
    """Return the head of a page with this ``title``, unless another one is given.

    The date is that of today unless one is given; an empty one is left out.

    Examples
    --------
    >>> head = header_of({"model": "churn 3", "date": ""}, title="An audit", rows="2,000")
    >>> head.title, head.facts
    ('An audit', (('Model', 'churn 3'), ('Rows', '2,000')))
    """
    for name, value in about.items():
        if name not in About.__annotations__:
            known = ", ".join(About.__annotations__)
            raise OptionError(f"a page has no option {name!r}. Its options are {known}.")
        if value is not None and not isinstance(value, str | datetime.date):
            raise OptionError(f"{name} must be a text, got {value!r}. Pass {name}='...'.")
    date = about.get("date")
    shown = datetime.date.today().isoformat() if date is None else str(date)
    facts = (
        ("Model", about.get("model")),
        ("Data", about.get("data")),
        ("Rows", rows),
        ("Date", shown),
    )
    told = tuple((name, value) for name, value in facts if value)
    return Header(about.get("title") or title, told, about.get("command"))
