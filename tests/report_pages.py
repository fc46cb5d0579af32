"""Pages read back: their elements and texts, and a check that nothing in them runs or loads."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

EVIL = (
    "</script><script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    '" onmouseover="window.pwned=1" x=\'',
    "<!--<script>",
    "{{ 7 * 7 }}",
)


class Page(HTMLParser):
    """The elements of a page, its attributes, its texts, and what its scripts and styles hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self._inside: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        self._inside = tag if tag in self.raw else None
        if self._inside:
            self.raw[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.raw[self._inside][-1] += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    @property
    def data(self) -> Any:
        return json.loads(self.raw["script"][0])


def check_harmless(text: str) -> Page:
    """Check that nothing in a page runs, loads or styles anything but what we wrote."""
    page = Page(text)
    for tag, attributes in page.tags:
        assert tag not in ("iframe", "object", "embed", "link", "base", "form")
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("src", "href", "xlink:href", "srcset", "action"):
            assert attributes.get(name, "#").startswith(("#", "data:image/"))
    assert sum(tag == "script" for tag, _ in page.tags) == 2
    assert not [tag for tag, _ in page.tags if tag == "img"]
    return page
