"""The table of what can be audited: every row names a test, and each of these tests exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from epiloss.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "formats.md").read_text("utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("|---")]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?` \|$")


def names_in(path: Path) -> set[str]:
    found = ast.walk(ast.parse(path.read_text("utf-8")))
    return {
        one.name for one in found if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")
    }


@pytest.mark.parametrize("row", [row for row in ROWS if not row.endswith("| test |")])
def test_every_row_names_a_test_that_exists(row: str) -> None:
    found = NAMED.search(row)
    assert found is not None, f"no test is named in: {row}"
    path = ROOT / found[1]
    assert path.is_file(), f"{path} does not exist"
    known = names_in(path)
    assert known
    assert found[2] is None or found[2] in known, f"{found[1]} has no {found[2]}"


def test_there_are_rows_for_files_and_objects() -> None:
    assert len(ROWS) > 30


def test_options_that_the_page_names_exist() -> None:
    options = {name for one in cli.commands["audit"].params for name in one.opts}
    named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", PAGE))
    assert named
    assert named <= options
