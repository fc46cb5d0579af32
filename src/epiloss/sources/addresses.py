"""Addresses: distinguishing local paths from remote addresses, and hiding secrets in them."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import url2pathname

from epiloss.errors import DataError, printable

REMOTE = ("s3", "gs", "hf", "http", "https")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def local_name(name: Any) -> Any:
    """Return the path of a ``file://`` address; other names unchanged.

    Examples
    --------
    >>> local_name("file:///data/my%20scores.csv"), local_name("scores.csv")
    ('/data/my scores.csv', 'scores.csv')
    """
    if not isinstance(name, str) or name[:7].lower() != "file://":
        return name
    parts = urlsplit(name)
    if parts.netloc not in ("", "localhost") or not parts.path.strip("/"):
        raise DataError(
            printable(f"file:// must be followed by an absolute path, got {name!r}. Use file:///PATH.")
        )
    return url2pathname(name[len("file://") + len(parts.netloc) :])


def is_remote(name: str | os.PathLike[str]) -> bool:
    """Return whether a name is a remote address; raise an error if its scheme is not supported.

    Examples
    --------
    >>> is_remote("s3://bucket/scores.parquet"), is_remote("scores.parquet")
    (True, False)
    """
    text = os.fspath(name)
    found = _SCHEME.match(text)
    if found is None or os.path.exists(text):
        return False
    if found[1].lower() not in REMOTE or "::" in text:
        raise DataError(
            printable(
                f"addresses must begin with file://, {', '.join(f'{one}://' for one in REMOTE[:-1])} or "
                f"{REMOTE[-1]}://, got {shown(text)!r}. Download the file first, or pass "
                "pyarrow.dataset.dataset(...) of it."
            )
        )
    return True


def shown(address: str) -> str:
    """Return an address without possible secrets: the user, the password and the query.

    Examples
    --------
    >>> shown("https://me:word@host/a.csv?token=1"), shown("s3://bucket/a*.csv")
    ('https://host/a.csv?...', 's3://bucket/a*.csv')
    """
    parts = urlsplit(address)
    more = "?..." if parts.query else ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")) + more


def without_secrets(text: str, address: str) -> str:
    """Return a message about an address without the address's secrets."""
    parts = urlsplit(address)
    user, _, _ = parts.netloc.rpartition("@")
    for secret in (address, parts.query, user, *user.split(":")[1:]):
        text = text.replace(secret, shown(address) if secret == address else "...") if secret else text
    return text
