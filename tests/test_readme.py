"""The README shows what the program prints."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from epiloss.cli import cli

README = Path(__file__).parents[1] / "README.md"


def test_the_ledger_in_the_readme_is_what_the_demo_prints() -> None:
    blocks = re.findall(r"```\n(.*?)\n```", README.read_text(encoding="utf-8"), re.DOTALL)
    shown = next(block for block in blocks if block.startswith("binary task"))
    printed = CliRunner().invoke(cli, ["demo"]).stdout.rstrip("\n")
    assert printed == shown
