"""The experiment on rare outcomes: its truth is the truth, and its table tells what was found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rare
from epiloss.estimate import Estimate


@pytest.mark.parametrize("name", rare.SETTINGS)
def test_scores_are_calibrated_but_for_what_they_are_stretched(name: str) -> None:
    setting = rare.SETTINGS[name]
    _, scores, c, q = setting.draw(400_000, np.random.default_rng(0))
    assert float(name.split("%")[0]) / 100 == pytest.approx(q.mean(), rel=0.1)
    assert (scores == c).all() == (setting.stretch == 1)
    order = np.argsort(c)
    halves = [part.mean() for part in np.array_split((q - c)[order], 2)]
    np.testing.assert_allclose(halves, 0.0, atol=0.01 * c.mean())
    if setting.ratio == 0:
        np.testing.assert_array_equal(q, c)


def test_lines_count_what_lies_above_and_what_is_significant() -> None:
    task = rare.Task("1.1% positive", 2_000, 0, 0)
    low = {name: Estimate(2.0, low=0.5, high=3.0, pvalue=0.2) for name in rare.BOUNDS}
    high = {name: Estimate(4.0, low=1.5, high=5.0, pvalue=0.01) for name in rare.BOUNDS}
    lines = rare.summarise([rare.Found(task, 1.0, low), None, rare.Found(task, 1.0, high)])
    assert [line.bound for line in lines] == list(rare.BOUNDS)
    for line in lines:
        assert (line.repetitions, line.mean, line.above, line.significant) == (2, 3.0, 0.5, 0.5)
    assert "300%" in rare.as_table(lines)


def test_the_script_prints_its_table_and_saves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = {name: rare.SETTINGS[name] for name in ("16% positive", "1.1%, null, too large")}
    monkeypatch.setattr(rare, "SETTINGS", few)
    path = tmp_path / "new" / "rare.csv"
    rare.main(["--quick", "--repetitions", "1", "--jobs", "1", "--output", str(path)])
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1 + 2 * len(rare.BOUNDS)
    printed = capsys.readouterr()
    assert all(name in printed.out for name in few)
    assert not printed.err  # no progress bar where nobody looks
