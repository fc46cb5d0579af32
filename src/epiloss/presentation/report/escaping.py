"""Text from data is cleaned and escaped, and never run or loaded from elsewhere."""

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
_LONGEST_SENTENCE = 4_000  # a sentence may contain several texts
_THUMBNAIL = "data:image/jpeg;base64,"
# Characters that change the direction of text, and so can make it look like another text.
_DIRECTION = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# JSON has these characters only within strings, where the escaped form means the same.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def clean(text: Any, longest: int = _LONGEST) -> str:
    r"""Return text on one line, without control characters, truncated if it is long.

    Examples
    --------
    >>> clean("a\x1b[31m\nb"), clean("\u202eabc"), clean("abcdef", longest=4)
    ('a[31m b', 'abc', 'abc…')
    """
    text = str(text)[: 4 * longest]
    kept = "".join(
        " " if sign in "\t\n\r\u2028\u2029" else sign for sign in text if not _is_control(sign)
    )
    return kept if len(kept) <= longest else kept[: longest - 1] + "…"


def json_block(value: Any) -> Markup:
    r"""Return a value as JSON that is safe within a script element; non-finite numbers are null.

    Examples
    --------
    >>> print(json_block({"a": ["</script>", float("nan")]}))
    {"a":["\u003c/script\u003e",null]}
    """
    text = json.dumps(for_json(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(_ESCAPES))


def thumbnail(address: str | None) -> str | None:
    """Return the address of an image if it is a data URL."""
    return address if address is not None and address.startswith(_THUMBNAIL) else None


def security_policy(*, script: str, style: str) -> str:
    """Return the content security policy of a page: this script and style, and nothing else."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def asset(name: str) -> str:
    """Return the text of a file of this package."""
    return resources.files("epiloss.presentation.report").joinpath(name).read_text("utf-8")


@cache
def environment() -> Environment:
    """Return the template environment, which cleans and escapes all values and forbids missing ones."""
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


def _is_control(sign: str) -> bool:
    if sign in "\t\n\r":
        return False
    return sign in _DIRECTION or unicodedata.category(sign) in ("Cc", "Cs")


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
