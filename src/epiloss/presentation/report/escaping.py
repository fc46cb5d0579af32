"""What comes from data stays text: cleaned, escaped, and never run or loaded from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import unicodedata
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from epiloss._saving import for_json

_LONGEST = 600  # characters of one text
_LONGEST_SENTENCE = 4_000  # which may hold several
_THUMBNAIL = "data:image/jpeg;base64,"
# that turn the direction of the text after them, and so can make it look like another
_DIRECTION = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# outside of strings JSON has none of these signs, and inside they mean the same when escaped
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def clean(text: Any, longest: int = _LONGEST) -> str:
    r"""Return a text in one line, with no sign that steers a program, cut where it is long.

    Examples
    --------
    >>> clean("a\x1b[31m\nb"), clean("\u202eabc"), clean("abcdef", longest=4)
    ('a[31m b', 'abc', 'abc…')
    """
    text = str(text)[: 4 * longest]
    kept = "".join(" " if sign in "\t\n\r\u2028\u2029" else sign for sign in text if not _steers(sign))
    return kept if len(kept) <= longest else kept[: longest - 1] + "…"


def json_block(value: Any) -> Markup:
    r"""Return a value as JSON that can stand inside a script element; what is not finite is null.

    Examples
    --------
    >>> print(json_block({"a": ["</script>", float("nan")]}))
    {"a":["\u003c/script\u003e",null]}
    """
    text = json.dumps(for_json(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(_ESCAPES))


def thumbnail(address: str | None) -> str | None:
    """Return the address of an image if the image is inside the address itself."""
    return address if address is not None and address.startswith(_THUMBNAIL) else None


def security_policy(*, script: str, style: str) -> str:
    """Return the policy of a page: it runs this script, looks like this style, and loads nothing."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def asset(name: str) -> str:
    """Return the text of a file that comes with the package."""
    return resources.files("epiloss.presentation.report").joinpath(name).read_text("utf-8")


@cache
def environment() -> Environment:
    """Return where templates are filled in: everything is cleaned and escaped, nothing is missing."""
    return Environment(
        autoescape=True,
        loader=FunctionLoader(asset),
        undefined=StrictUndefined,
        finalize=_cleaned,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _cleaned(value: Any) -> Any:
    return (
        clean(value, _LONGEST_SENTENCE)
        if isinstance(value, str) and not isinstance(value, Markup)
        else value
    )


def _steers(sign: str) -> bool:
    if sign in "\t\n\r":
        return False
    return sign in _DIRECTION or unicodedata.category(sign) in ("Cc", "Cs")


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
