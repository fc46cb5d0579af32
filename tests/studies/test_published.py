"""What the paper printed: read whole, counted rightly, drawn, and compared with ours."""

from __future__ import annotations

import doctest
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import nlp_yahoo
import published_distance
import published_page
import published_statements
import published_values
import study_verdicts
import vision
import vision_networks
from epiloss import Estimate
from protocol import Line
from published_values import Printed, printed, printed_on, printed_topics
from study_verdicts import HOLDS, IN_PART, NOT, Correlation

ROOT = Path(__file__).parents[2]
LARGER_INPUTS = {"Inception v3", "EfficientNet-B7"}  # trained on larger images than the paper's crops


@pytest.mark.parametrize(
    "module",
    [published_values, study_verdicts, published_distance, vision_networks],
    ids=lambda module: module.__name__,
)
def test_examples_in_docstrings_hold(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted
    assert found.failed == 0


# --- the values ---


def test_every_network_of_the_registry_is_printed_on_every_data_set() -> None:
    assert len(printed()) == 4 * 27 + 2
    for data_set in published_values.VISION:
        rows = printed_on(data_set)
        assert len(rows) == 27
        names = [one.name for one in vision_networks.NETWORKS]
        found = [vision_networks.published(data_set, name, "paper") for name in names]
        assert all(publisher == "the paper's" for _, publisher in found)
        values = sorted(tuple(one.items()) for one, _ in found if one is not None)
        assert values == sorted(tuple(one.by_column.items()) for one in rows.values())


def test_printed_accuracies_are_those_of_the_same_weights() -> None:
    # names of the registry and of the paper must meet: torchvision gives accuracies of its own crops,
    # which differ by less than half a point unless a network was trained on larger images
    for one in vision_networks.NETWORKS:
        values, _ = vision_networks.published("ImageNet-1K", one.name, "paper")
        assert values is not None
        lost = one.accuracy - values["accuracy"]
        assert (lost > 0.05) if one.name in LARGER_INPUTS else (abs(lost) < 0.005), (one.name, lost)


def test_rows_are_in_the_order_of_accuracy() -> None:
    for data_set in published_values.VISION:
        accuracies = [one.accuracy for one in printed_on(data_set).values()]
        assert accuracies == sorted(accuracies, reverse=True)
        assert all(0 < one < 1 for one in accuracies)


# --- the statements ---


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Correlation(0.4, 0.04), HOLDS),
        (Correlation(0.4, 0.06), NOT),
        (Correlation(0.0, 1.0), NOT),
        (Correlation(-0.9, 0.001), NOT),
    ],
)
def test_a_rank_correlation_holds_if_it_is_positive_beyond_chance(
    found: Correlation, verdict: str
) -> None:
    assert study_verdicts.by_order(found) == verdict


@pytest.mark.parametrize(("change", "verdict"), [(0.0019, HOLDS), (0.0021, IN_PART), (0.011, NOT)])
def test_a_change_is_judged_by_the_size_of_what_changes(change: float, verdict: str) -> None:
    assert study_verdicts.by_change(change, 0.02) == verdict


def made(data_set: str, model: str, accuracy: float, gl: float, after: float) -> Printed:
    return Printed(data_set, model, accuracy, 0.1, 0.0, gl, after)


def test_statements_that_do_not_hold_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    # a loss that falls with accuracy, is nearly gone after recalibration and is the same everywhere
    rows = tuple(
        made(data_set, f"network {k}", 0.2 + 0.01 * k, 0.03 - 0.002 * k, 0.0001 * k)
        for data_set in published_values.VISION
        for k in range(8)
    )
    topics = tuple(
        made(published_values.YAHOO, name, 0.8, 0.01, 0.0) for name in published_values.TOPICS.values()
    )
    monkeypatch.setattr(published_values, "printed", lambda: rows + topics)
    monkeypatch.setattr(published_statements, "printed", lambda: rows + topics)
    found = {(one.text, one.data): one for one in published_statements.statements()}
    removed = found.pop(("Recalibration removes the calibration loss", "all"))
    assert removed.verdict == HOLDS
    assert {one.verdict for one in found.values()} == {NOT}
    assert (
        "mean absolute change 0.0226, 98% of"
        in found["Recalibration does not change the grouping loss", "ImageNet-R"].count
    )


def test_the_statements_are_counted_as_an_independent_count_finds() -> None:
    r, clean = (printed_on(name) for name in ("ImageNet-R", "ImageNet-1K"))
    merged, snow = (printed_on(f"ImageNet-C, {name} 5") for name in ("merged", "snow"))
    said = {(one.text, one.data): one.count for one in published_statements.statements()}
    above = sum(snow[name].gl > merged[name].gl for name in snow)
    assert (
        f"larger on snow for {above} of 27"
        in said["Snow alone shows a larger loss than 19 corruptions mixed", "ImageNet-C"]
    )
    more = sum(r[name].gl > clean[name].gl for name in r)
    assert f"for {more} of 27 networks" in said["The grouping loss is larger under shift", "ImageNet-R"]
    change = np.mean([abs(one.gl_after - one.gl) for one in r.values()])
    assert (
        f"change {change:.4f}," in said["Recalibration does not change the grouping loss", "ImageNet-R"]
    )
    ranks = [
        [sum(b < a for b in column) + sum(b == a for b in column) / 2 for a in column]
        for column in ([one.accuracy for one in r.values()], [one.gl for one in r.values()])
    ]
    rho = np.corrcoef(np.array(ranks))[0, 1]
    assert (
        f"rank correlation {rho:.2f}, p < 0.001"
        in said["More accurate networks have a larger grouping loss", "ImageNet-R"]
    )


# --- ours beside print ---


def near(value: float, width: float = 0.002) -> Estimate:
    return Estimate(value, width / 2, value - width, value + width)


def line(name: str, gl: float, published: Printed | None) -> Line:
    loss = near(0.0001)
    values = None if published is None else published.by_column
    return Line(name, 100, 0.3, near(0.03), loss, near(gl), near(gl), None, None, 1.0, values)


def test_each_network_is_told_how_far_from_print_it_is() -> None:
    row = printed_on("ImageNet-R")["ConvNeXt Large"]  # GL 0.055, GL' 0.060, CL 0.029
    lines = [line("a", 0.056, row), line("b", 0.04, row), line("c", 0.1, None)]
    known = published_distance.printed_lines(lines)
    assert [one.name for one in known] == ["a", "b"]
    table = published_distance.distances(known).splitlines()
    assert table[2] == "| a | -0.048 | +0.0010 | +0.0001 | +0.0010 | -0.0040, *outside* |"
    assert table[3] == "| b | -0.048 | +0.0010 | +0.0001 | -0.0150, *outside* | -0.0200, *outside* |"
    text = published_distance.agreement(known)
    assert "of 2 rows, our 95% interval contains the printed" in text
    assert "CL in 2, CL' in 2, GL in 1, GL' in 0" in text
    assert "by 0.0080 on average, most by -0.0150 (b), and the accuracy by at most 0.048" in text


def test_accuracies_alone_are_not_what_the_paper_printed() -> None:
    only = replace(line("a", 0.1, None), published={"accuracy": 0.5})
    assert published_distance.printed_lines([only]) == []


def test_barts_lines_are_compared_with_print() -> None:
    lines = [line(f"five {which} topics", 0.015, printed_topics(which)) for which in ("seen", "unseen")]
    text = nlp_yahoo.paragraph(lines)
    assert "CL in 0, CL' in 2, GL in 1, GL' in 1" in text
    assert "most by +0.0150 (five seen topics)" in text


def test_published_values_are_hollow_marks_beside_our_bars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="draws")
    import study_pictures

    figures = []
    monkeypatch.setattr(study_pictures, "save", lambda figure, path: figures.append(figure))
    row = printed_on("ImageNet-R")["ConvNeXt Large"]
    study_pictures.bars([line("a", 0.05, row), line("b", 0.05, None)], tmp_path / "x.png", "title")
    (ax,) = figures[0].axes
    marks = [one for one in ax.lines if one.get_marker() == "o"]
    assert [one.get_markerfacecolor() for one in marks] == ["none"] * 4
    assert [one.get_xdata()[0] for one in marks] == [0.029, 0.0, 0.055, 0.06]
    assert [len(one.get_xdata()) for one in marks] == [1] * 4  # of b nothing was published
    names = [text.get_text() for text in figures[0].legends[0].get_texts()]
    assert names.count("published") == 1


# --- the page ---


def test_the_script_writes_the_page_and_its_pictures_without_any_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="draws")
    target, images = tmp_path / "docs" / "page.md", tmp_path / "images"
    assert vision.main(["--published", f"--page={target}", f"--images={images}"]) == 0
    said = capsys.readouterr().out
    text = target.read_text(encoding="utf-8")
    assert said.partition("\n\n")[0] in text
    for name, *_ in published_page.FIGURES:
        assert (images / name).read_bytes().startswith(b"\x89PNG")
        assert f"](../images/{name})" in text


def test_a_quick_run_leaves_the_documentation_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="draws")
    monkeypatch.chdir(tmp_path)
    assert vision.main(["--published", "--quick", "--output=out"]) == 0
    assert (tmp_path / "out" / "published.md").exists()
    assert not (tmp_path / "docs").exists()


def test_the_page_of_the_documentation_is_what_the_script_writes(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="draws")
    target, images = tmp_path / "studies" / "published.md", tmp_path / "images" / "studies"
    written = published_page.write(target, images)
    page = ROOT / published_page.PAGE
    assert page.read_text(encoding="utf-8") == written.read_text(encoding="utf-8")
    for name, *_ in published_page.FIGURES:
        assert (ROOT / "docs" / "images" / "studies" / name).exists()
