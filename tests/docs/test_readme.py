"""The README shows what the program prints."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from epiloss.cli.main import cli

README = Path(__file__).parents[2] / "README.md"
_NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e-?\d+)?")


@pytest.fixture(scope="module")
def shown_and_printed() -> tuple[list[str], list[str]]:
    blocks = re.findall(r"```\n(.*?)\n```", README.read_text(encoding="utf-8"), re.DOTALL)
    shown = next(block for block in blocks if block.startswith("binary task"))
    printed = CliRunner().invoke(cli, ["demo"]).stdout.rstrip("\n")
    return shown.splitlines(), printed.splitlines()


def test_the_readme_shows_the_lines_that_the_demo_prints(
    shown_and_printed: tuple[list[str], list[str]],
) -> None:
    shown, printed = (
        [" ".join(_NUMBER.sub("#", line).split()) for line in part] for part in shown_and_printed
    )
    assert printed == shown


def test_the_losses_in_the_readme_are_those_of_the_demo(
    shown_and_printed: tuple[list[str], list[str]],
) -> None:
    """Within 2e-4: other versions of the libraries break ties between splits in other ways."""
    losses = ("score", "= calibration", "+ grouping", "+ remainder", "  explained", "  upper")
    for shown, printed in zip(*shown_and_printed, strict=True):
        if shown.startswith(losses):
            numbers = [
                [float(x) for x in _NUMBER.findall(line.split("p =")[0])] for line in (shown, printed)
            ]
            np.testing.assert_allclose(numbers[1], numbers[0], atol=2e-4)
