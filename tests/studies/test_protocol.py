"""The studies' protocol: the paper's scale, tables that say what was measured, sections that last."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import epiloss
import protocol
import study_captions
from epiloss import Audit, Estimate
from epiloss.partition import Tree
from epiloss.simulate import Sigmoid
from protocol import Line, Section
from study_verdicts import HOLDS, Statement

CLAIM = Statement("So it is", "data", "3 of 3", HOLDS)
PROBLEM = Sigmoid(perturbation="step")
PAPER = {"accuracy": 0.711, "CL": 0.091, "GL": 0.015}


@cache
def measured() -> tuple[Line, Audit]:
    sample = PROBLEM.sample(4_000, random_state=1)
    return protocol.measure("a | b", sample.y, sample.scores, sample.X, published=PAPER)


def test_losses_are_twice_those_of_the_audit_by_the_papers_options() -> None:
    line, result = measured()
    sample = PROBLEM.sample(4_000, random_state=1)
    by_hand = epiloss.audit(
        sample.y, sample.scores, sample.X, recalibrate="isotonic", partition=Tree(30), method="paper"
    )
    after = by_hand.recalibrated
    assert after is not None
    assert line.gl.value == 2 * by_hand.partition_bound.value
    assert line.gl_after.value == 2 * after.partition_bound.value
    twins = epiloss.audit(sample.y, sample.scores, sample.X, recalibrate="isotonic")
    assert twins.recalibrated is not None
    assert line.cl.value == 2 * twins.calibration_loss.value
    assert line.cl_after.value == 2 * twins.recalibrated.calibration_loss.value
    low, high, error = line.gl.low, line.gl.high, line.gl.stderr
    assert low is not None
    assert high is not None
    assert error is not None
    assert (low + high) / 2 == pytest.approx(line.gl.value)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=1e-3)
    assert line.gl.pvalue == by_hand.partition_bound.pvalue
    assert line.twin is not None
    assert line.twin.low == 2 * (result.grouping_loss.low or 0)
    assert line.twin.value == 2 * twins.grouping_loss.value


def test_a_known_grouping_loss_is_found_on_the_papers_scale() -> None:
    # one sample of 4,000 rows; at most four standard errors above the truth. Trees with 30 rows a
    # region see little of it in 15 bins, twins most
    line, _ = measured()
    truth = 2 * PROBLEM.truth().grouping_loss
    bounds = ((line.gl, 0.1), (line.gl_after, 0.1), (line.twin, 0.6), (line.twin_after, 0.6))
    for bound, least in bounds:
        assert bound is not None
        assert least * truth < bound.value < truth + 4 * (bound.stderr or 0)


def test_twins_can_be_left_out() -> None:
    sample = PROBLEM.sample(500)
    line, _ = protocol.measure("x", sample.y, sample.scores, sample.X, twins=False)
    assert line.twin is None
    assert line.twin_after is None


def test_accuracy_of_one_column_and_of_several() -> None:
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(5), 300)
    y = generator.integers(0, 3, 300)  # classes 3 and 4 never occur, and are classes all the same
    line, result = protocol.measure("x", y, p, p, twins=False)
    assert result.task == "top-label"
    assert line.accuracy == np.mean(p.argmax(axis=1) == y)
    sample = PROBLEM.sample(500)
    line, _ = protocol.measure("x", sample.y, sample.scores, sample.X, twins=False)
    assert line.accuracy == np.mean((sample.scores >= 0.5) == sample.y)


def test_tables_show_every_number_and_the_papers_below() -> None:
    line, _ = measured()
    text, marked = protocol.table([line]), protocol.markdown([line])
    for one in line.estimates:
        assert f"{one:z.4f}" in text
        assert f"{one:z.4f}" in marked
    assert text.splitlines()[2].split() == ["the", "paper's", "0.711", "0.091", "0.015"]
    rows = marked.splitlines()
    assert "a \\| b" in rows[2]
    assert len({row.replace("\\|", "").count("|") for row in rows}) == 1
    assert [cell.strip() for cell in rows[3].split("|")][3:7] == ["*0.711*", "*0.091*", "", "*0.015*"]
    other = protocol.markdown([replace(line, publisher="torchvision's")])
    assert "| *torchvision's* |" in other


def test_columns_of_the_text_table_start_below_each_other() -> None:
    line, _ = measured()
    head, *rows = protocol.table([line]).splitlines()
    start = head.index("CL")
    assert rows[0][start:].startswith(f"{line.cl:z.4f}")
    assert rows[1][start:].startswith("0.091")


def test_a_section_is_read_as_it_was_written(tmp_path: Path) -> None:
    line, _ = measured()
    tenth = Estimate(0.1)
    bare = Line("bare", 3, 0.5, tenth, tenth, tenth, tenth, None, None, 0.1)
    image = tmp_path / "images" / "two-regions.png"
    section = Section(
        "Truth known: ratings", [line, bare], "A paragraph.", [image], "| a |\n|---|", (CLAIM,), [bare]
    )
    page = protocol.write_section(section, tmp_path / "new" / "folder")
    assert page.name == "truth-known-ratings.md"
    assert "](../../images/two-regions.png)" in page.read_text()
    assert {path.suffix for path in page.parent.iterdir()} == {".md", ".json"}
    again = protocol.read_section(page.with_suffix(".json"))
    assert [one.to_dict() for one in again.lines] == [line.to_dict(), bare.to_dict()]
    assert [one.to_dict() for one in again.further] == [bare.to_dict()]
    assert again.images[0].resolve() == image.resolve()
    assert (again.title, again.text, again.extra) == (section.title, section.text, section.extra)
    assert again.claims == (CLAIM,)
    assert "| So it is | data | 3 of 3 | holds |" in page.read_text()
    assert protocol.as_markdown(again, page.parent) == page.read_text()


def test_a_picture_has_its_alternative_text_and_its_caption(tmp_path: Path) -> None:
    images = [tmp_path / "known-groups.png", tmp_path / "of-no-name.png"]
    page = protocol.as_markdown(Section("Groups", [], "", images), tmp_path)
    caption = study_captions.CAPTIONS["known-groups"]
    assert f"![{caption.alternative}](known-groups.png)\n\n*{caption.text}*\n" in page
    assert "![Groups: of no name](of-no-name.png)\n" in page


def test_every_picture_of_a_study_in_the_documentation_has_a_caption() -> None:
    pages = (Path(__file__).parents[2] / "docs" / "studies").glob("*.md")
    shown = {
        Path(name).stem
        for page in pages
        if page.name != "published.md"
        for name in re.findall(r"\]\((.*\.png)\)", page.read_text(encoding="utf-8"))
    }
    assert shown == set(study_captions.CAPTIONS)


def test_options_are_those_of_every_study(capsys: pytest.CaptureFixture[str]) -> None:
    parser = protocol.options("A study.")
    given = parser.parse_args(["--quick", "--cache", "there", "--seed", "3"])
    assert (given.quick, given.cache, given.seed) == (True, Path("there"), 3)
    assert given.output == Path("experiments/output")
    with pytest.raises(SystemExit):
        parser.parse_args(["--seed", "-1"])
    assert "at least 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "images"),
    [
        ([], "docs/images/studies"),
        (["--quick"], "experiments/output/images"),
        (["--quick", "--output", "there"], "there/images"),
        (["--output", "there"], "docs/images/studies"),
        (["--quick", "--images", "here"], "here"),
    ],
)
def test_pictures_of_a_quick_run_go_to_the_documentation_only_if_told(
    arguments: list[str], images: str
) -> None:
    assert protocol.options("A study.").parse_args(arguments).images == Path(images)


def test_progress_is_silent_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(protocol.progress(range(3), "rows")) == [0, 1, 2]
    assert capfd.readouterr() == ("", "")
