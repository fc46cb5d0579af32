"""The experiment on tracking: what it plants is there, and its page tells what was found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tracking
from tracking import BEGIN, Setting, Year


def test_a_change_is_planted_where_and_when_it_is_said() -> None:
    """40,000 rows: rates and shares within 0.02, about four standard errors."""
    setting = Setting(outcome=0.1, share=0.1)
    rows = tracking.draw(setting, 200, 200, np.random.default_rng(0))
    in_b, late = rows.X["ward"] == "B", rows.day >= BEGIN
    expected = tracking.draw(replace(setting, outcome=0.0), 200, 200, np.random.default_rng(0))
    change = (rows.y - expected.y)[in_b & late].mean()
    assert change == pytest.approx(0.1, abs=0.02)
    assert (rows.y == expected.y)[~(in_b & late)].all()
    assert in_b[late].mean() == pytest.approx(0.3, abs=0.02)
    assert in_b[~late].mean() == pytest.approx(0.2, abs=0.02)


def test_the_table_counts_alarms_and_delays() -> None:
    years = [Year("a", k, delay, np.inf, 1) for k, delay in enumerate([-5.0, 10.0, 30.0, np.inf])]
    cells = tracking.line("a", Setting(outcome=0.03), years)
    assert cells[1:4] == ["4", "50.0%", "30 / not in the year"]  # one of them came before the change
    quiet = tracking.line("b", Setting(), years)
    assert quiet[2:] == ["75.0%", "-", "0.0%", "-", "75.0%"]


def test_the_script_simulates_saves_and_fills_in_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some = Setting(50, 2_000, part=1.0)
    small = {"none": some, "some": replace(some, outcome=0.5)}
    monkeypatch.setattr(tracking, "SETTINGS", small)
    monkeypatch.setattr(tracking, "DAYS", 150)
    monkeypatch.setattr(tracking, "repeated_tests", lambda: "told")
    page = tmp_path / "page.md"
    marks = "".join(f"<!-- {name} -->\n<!-- end of {name} -->\n" for name in ("years", "tests"))
    page.write_text(f"# A page\n{marks}the end\n")
    command = [
        "--years",
        "2",
        "--changed",
        "2",
        "--save",
        str(tmp_path / "y.csv"),
        "--markdown",
        str(page),
    ]
    tracking.main(command)
    text = page.read_text()
    assert "| none | 2 | 0.0% | - | 0.0% | - | 0.0% |" in text
    assert "| some | 2 | 100.0% |" in text
    assert "told" in text
    assert text.endswith("the end\n")
    monkeypatch.setattr(tracking, "one_year", None)  # what is saved is not simulated again
    tracking.main(command)
    assert page.read_text() == text
    assert "| none | 2 |" in capsys.readouterr().out
