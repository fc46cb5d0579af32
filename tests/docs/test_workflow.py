"""The workflow in the docs calls commands and options that exist."""

from __future__ import annotations

import re
from pathlib import Path

from epiloss.cli.main import cli

DOCS = Path(__file__).parents[2] / "docs"


def test_the_workflow_uses_options_of_the_command() -> None:
    text = (DOCS / "_static" / "epiloss-gate.yml").read_text("utf-8")
    known = {name for one in cli.commands["audit"].params for name in one.opts}
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert {"--baseline", "--fail-above", "--report"} <= used <= known
    assert "\t" not in text


def test_the_page_of_the_command_line_names_every_command_and_only_known_options() -> None:
    text = (DOCS / "command_line.md").read_text("utf-8")
    for name in cli.commands:
        assert f"`epiloss {name}`" in text, name
    for line in re.findall(r"^epiloss (.*)$", text, re.MULTILINE):
        name, *words = line.partition("#")[0].split()
        known = {option for one in cli.commands[name].params for option in one.opts}
        assert {word for word in words if word.startswith("--")} <= known, line
