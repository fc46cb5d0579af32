"""Check that the version is the same everywhere, and that the changelog has an entry for it.

``python scripts/check_release.py`` checks the files. With a git tag, as in
``python scripts/check_release.py v0.2.0``, the tag must be the version, and the changelog must have an
entry for it: a section Unreleased is not enough.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def found(pattern: str, name: str) -> str | None:
    """Return the first match of a pattern in a file of the repository, or None."""
    match = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    return match[1] if match else None


def problem(tag: str | None) -> str | None:
    """Return a sentence about the first problem, or None."""
    version = found(r'^__version__ = "(.+)"$', "src/epiloss/__init__.py")
    if version is None:
        return "src/epiloss/__init__.py does not set __version__."
    cited = found(r"^version: [\"']?([^\"'\s]+)", "CITATION.cff")
    if cited != version:
        return f"CITATION.cff has version {cited}, but epiloss.__version__ is {version}."
    entry = found(rf"^## \[?({re.escape(version)})\]?(?=\s|$)", "CHANGELOG.md")
    if tag is None:
        if entry is None and found(r"^## \[?(Unreleased)\b", "CHANGELOG.md") is None:
            return f"CHANGELOG.md has neither an entry for {version} nor a section Unreleased."
    elif tag.removeprefix("v") != version:
        return f"The tag is {tag}, but epiloss.__version__ is {version}."
    elif entry is None:
        return f"CHANGELOG.md has no entry for {version}: name the section Unreleased after it."
    return None


if __name__ == "__main__":
    sys.exit(problem(sys.argv[1] if len(sys.argv) > 1 else None))
