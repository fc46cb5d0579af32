"""What an audit tells when asked: rules, rows of regions, typical rows, the curve's band, rows shown."""

from __future__ import annotations

import base64
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from PIL import Image

import epiloss
from epiloss.auditing.result import Audit
from epiloss.auditing.views import difference_of_halves, repartitioned
from epiloss.estimation.inference import rate_pvalue
from epiloss.input.checks import read_problem
from epiloss.input.problem import Problem
from epiloss.input.row_display import read_display
from epiloss.simulate import Sigmoid


@pytest.fixture(scope="module")
def sample() -> epiloss.simulate.Sample:
    return Sigmoid(perturbation="step").sample(3_000)


@pytest.fixture(scope="module")
def result(sample: epiloss.simulate.Sample) -> Audit:
    table = {"age": sample.X[:, 0], "income": sample.X[:, 1]}
    return epiloss.audit(sample.y, sample.scores, table, method="partition", n_bins=5)


def rows_of(result: Audit, region: int) -> np.ndarray:
    assert result.details is not None
    return result.details.rows(region)


def test_the_rows_of_a_region_are_those_it_was_measured_on(
    result: Audit, sample: epiloss.simulate.Sample
) -> None:
    for region in range(len(result.regions)):
        rows = rows_of(result, region)
        assert len(rows) == result.regions["n"][region]
        assert sample.y[rows].mean() == pytest.approx(result.regions["label_mean"][region])
        assert sample.scores[rows].mean() == pytest.approx(result.regions["score_mean"][region])


def test_each_row_is_in_one_region_of_one_fold(result: Audit) -> None:
    rows = np.concatenate([rows_of(result, region) for region in range(len(result.regions))])
    np.testing.assert_array_equal(np.sort(rows), np.arange(3_000))


def test_rows_are_counted_as_the_user_counts_them(sample: epiloss.simulate.Sample) -> None:
    weight = np.ones(3_000)
    weight[:1_000] = 0.0
    result = epiloss.audit(
        sample.y, sample.scores, sample.X, sample_weight=weight, method="partition", n_bins=5
    )
    rows = rows_of(result, 0)
    assert rows.min() >= 1_000
    assert sample.y[rows].mean() == pytest.approx(result.regions["label_mean"][0])
    assert result.details is not None
    scores, labels = result.details.score_and_label(0, rows[:5])
    np.testing.assert_array_equal(scores, sample.scores[rows[:5]])
    np.testing.assert_array_equal(labels, sample.y[rows[:5]])


def test_the_most_typical_row_is_nearest_to_the_centre(
    result: Audit, sample: epiloss.simulate.Sample
) -> None:
    assert result.details is not None
    rows = rows_of(result, 2)
    points = sample.X[rows] / sample.X[rows].std(axis=0)
    nearest = rows[np.argmin(((points - points.mean(axis=0)) ** 2).sum(axis=1))]
    typical = result.details.typical_rows(2, 4)
    assert typical[0] == nearest
    assert set(typical) <= set(rows)


def test_rules_name_the_columns_and_hold_for_the_rows(
    result: Audit, sample: epiloss.simulate.Sample
) -> None:
    names = {"age": sample.X[:, 0], "income": sample.X[:, 1]}
    for region in np.flatnonzero(result.regions["n"] > 30)[:10]:
        rule = result.regions["rule"][region]
        assert rule == "all rows" or any(name in rule for name in names)
        for part in filter(lambda text: text != "all rows", rule.split(" and ")):
            values = {name: column[rows_of(result, int(region))] for name, column in names.items()}
            # a single row that was joined may lie outside; shown numbers are rounded
            assert np.mean(eval(_python(part), {}, values)) > 0.9


def _python(condition: str) -> str:
    words = condition.replace(",", "").split()
    if len(words) == 5:  # low < name <= high
        return f"({words[0]} <= {words[2]}) & ({words[2]} <= {words[4]} + 1e-3)"
    return f"{words[0]} {words[1]} {words[2]} + {1e-3 if words[1] == '<=' else 0}"


def test_costs_add_up_to_what_the_regions_explain(result: Audit) -> None:
    regions, levels = result.regions, result.level_sets
    cost = regions["cost"].sum() / 2  # two folds, each of which has all of the loss
    noise = levels["share"] @ (levels["label_mean"] * (1 - levels["label_mean"]) / levels["n"])
    assert cost + 2 * noise == pytest.approx(result.explained, abs=2e-4)


def test_the_worst_regions_come_first_and_lie_on_their_side(result: Audit) -> None:
    worst = result.worst_regions(5)
    assert (np.diff(worst["cost"]) <= 0).all()
    assert worst["cost"][0] == result.regions["cost"].max()
    assert (result.worst_regions(5, "over")["deviation"] < 0).all()
    assert (result.worst_regions(5, "under")["deviation"] > 0).all()
    with pytest.raises(epiloss.OptionError, match="side must be"):
        result.worst_regions(5, "left")


def test_other_regions_leave_the_ledger_alone(result: Audit) -> None:
    other = repartitioned(result, "stump")
    assert other.grouping_loss == result.grouping_loss
    assert other.options["partition"] == "stump"
    assert (other.level_sets["n_regions"] <= 2).all()
    assert len(set(other.regions["fold"].tolist())) == 1


def test_joined_groups_are_named_in_the_rule_and_the_report() -> None:
    groups = ["a"] * 400 + ["b1", "b2", "b3", "b4"]  # of which each b has one row
    y = np.array([0] * 380 + [1] * 24)
    result = epiloss.audit(y, np.full(404, 0.05), subgroups=groups, n_bins=3)
    assert result.regions["subgroup"].tolist() == ["a", "b1 + b2 + b3 + b4"]
    assert result.regions["rule"].tolist() == ["a", "b1 + b2 + b3 + b4"]
    assert "b1 + b2 + b3 + b4" in result.to_html()


def test_many_joined_groups_are_named_in_few_words() -> None:
    y, scores = np.arange(40) % 2, np.full(40, 0.5)
    rules = epiloss.audit(y, scores, subgroups=[f"g{k:02}" for k in range(40)], n_bins=1).regions["rule"]
    assert rules.tolist() == ["g00 + g01 + g02 + g03 + 36 more"]


def test_regions_of_groups_and_clusters_have_names(sample: epiloss.simulate.Sample) -> None:
    groups = np.where(sample.X[:, 0] > 0, "north", "south")
    by_group = epiloss.audit(sample.y, sample.scores, subgroups=groups, n_bins=5)
    assert set(by_group.regions["rule"]) == {"north", "south"}
    clusters = epiloss.audit(
        sample.y, sample.scores, sample.X, partition="kmeans", method="partition", n_bins=5
    )
    assert set(clusters.regions["rule"]) == {"cluster 0", "cluster 1"}
    blind = epiloss.audit(sample.y, sample.scores, n_bins=5)
    assert set(blind.regions["rule"]) == {"all rows"}


def test_regions_of_an_embedding_are_named_by_typical_rows(sample: epiloss.simulate.Sample) -> None:
    wide = np.hstack([sample.X, np.random.default_rng(0).normal(size=(3_000, 60))])
    options: dict[str, Any] = {"method": "partition", "n_bins": 3}
    plain = epiloss.audit(sample.y, sample.scores, wide, **options)
    assert plain.details is not None
    rows = plain.details.typical_rows(0, 3).tolist()
    assert plain.regions["rule"][0] == f"rows like {rows[0]}, {rows[1]}, {rows[2]}"
    texts = [f"text {i}" for i in range(3_000)]
    told = epiloss.audit(sample.y, sample.scores, wide, display=texts, **options)
    assert told.regions["rule"][0] == "rows like " + " · ".join(f"text {row}" for row in rows)


def test_the_histogram_counts_every_evaluated_row(
    result: Audit, sample: epiloss.simulate.Sample
) -> None:
    expected = np.histogram(sample.scores, np.linspace(0, 1, 51))[0]
    np.testing.assert_array_equal(result.histogram["n"], expected)


def test_an_audit_survives_pickling_with_its_rules(result: Audit) -> None:
    again = pickle.loads(pickle.dumps(result))
    assert again.regions["rule"].tolist() == result.regions["rule"].tolist()


@pytest.mark.slow
def test_the_band_holds_the_true_curve() -> None:
    """60 repetitions of 1,500 rows: of a calibrated score the curve is the diagonal.

    Pointwise 95% bands hold 0.95 of it or, as the window is chosen anew in each draw, a little more:
    0.93 to 0.995 is taken. The standard error of the mean over repetitions is about 0.013, and the
    basic bootstrap, which is what should be found out, holds 0.86.
    """
    inside = []
    for seed in range(60):
        sample = Sigmoid().sample(1_500, random_state=seed)
        result = epiloss.audit(sample.y, sample.scores, method="partition", n_bins=5)
        assert result.details is not None
        curve = result.details.calibration_curve()
        inside.append(np.mean((curve["low"] <= curve["score"]) & (curve["score"] <= curve["high"])))
    assert 0.93 <= np.mean(inside) <= 0.995


def test_clusters_widen_the_band() -> None:
    sample = Sigmoid().sample(500)
    again = np.repeat(np.arange(500), 4)
    rows = (sample.y[again], sample.scores[again])
    widths = []
    for clusters in (None, again):
        result = epiloss.audit(*rows, clusters=clusters, n_bins=5)
        assert result.details is not None
        curve = result.details.calibration_curve()
        widths.append(float(np.mean(curve["high"] - curve["low"])))
    assert widths[1] > 1.5 * widths[0]


def test_the_curve_of_several_classes_needs_one_of_them() -> None:
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(3), 400)
    labels = np.array([rng.choice(3, p=row) for row in scores])
    result = epiloss.audit(labels, scores, task="classwise", n_bins=4)
    assert result.details is not None
    assert len(result.details.calibration_curve("1")) > 50
    for wrong in (None, "7"):
        with pytest.raises(epiloss.OptionError, match="class must be one of '0', '1', '2'"):
            result.details.calibration_curve(wrong)


def problem_of(n: int, weight: object = None) -> Problem:
    y = np.arange(n) % 2
    return read_problem(y, np.full(n, 0.5), sample_weight=weight)


def test_display_takes_texts_tables_and_images(tmp_path: Path) -> None:
    problem = problem_of(3)
    texts = read_display(["a", "b" * 1_000, None], problem)
    assert texts is not None
    assert texts.texts(0) == {"": "a"}
    assert len(texts.texts(1)[""]) == 400
    assert texts.texts(2) == {"": ""}
    table = read_display({"id": [7, 8, 9], "name": ["x", "y", "z"]}, problem)
    assert table is not None
    assert table.texts(1) == {"id": "8", "name": "y"}
    pixels = read_display(np.random.default_rng(0).random((3, 200, 100)), problem)
    assert pixels is not None
    image = pixels.thumbnail(0)
    assert image is not None
    assert image.startswith("data:image/jpeg;base64,")
    assert len(image) < 20_000
    missing = read_display([tmp_path / "no.png"] * 3, problem)
    assert missing is not None
    with pytest.raises(epiloss.DataError, match="cannot be read"):
        missing.thumbnail(0)
    with pytest.raises(epiloss.DataError, match="one value for each of the 3 rows, got 2"):
        read_display(["a", "b"], problem)
    assert read_display(None, problem) is None


@pytest.mark.parametrize("brightest", [1.0, 16.0, 255.0])
def test_small_images_of_any_range_can_be_seen(brightest: float) -> None:
    pixels = np.linspace(0, brightest, 3 * 8 * 8).reshape(3, 8, 8)
    shown = read_display(pixels, problem_of(3))
    assert shown is not None
    bright = [np.asarray(decoded(shown.thumbnail(row))).mean() for row in range(3)]
    assert bright == pytest.approx([255 / 6, 255 / 2, 255 * 5 / 6], abs=4)  # not each by itself
    assert decoded(shown.thumbnail(0)).size == (48, 48)


def decoded(address: str | None) -> Any:
    assert address is not None
    return Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))


SHUFFLED = [2, 0, 1]
ENTRIES: dict[str, Any] = {
    "list": ["a", "b", "c"],
    "array": np.array(["a", "b", "c"]),
    "pandas": pd.Series(["a", "b", "c"]),
    "pandas shuffled": pd.Series(["a", "b", "c"], index=SHUFFLED),
    "pandas without a 0": pd.Series(["a", "b", "c"], index=[10, 20, 30]),
    "pandas named": pd.Series(["a", "b", "c"], index=["x", "y", "z"]),
    "pandas categories": pd.Series(["a", "b", "c"], index=SHUFFLED, dtype="category"),
    "frame": pd.DataFrame({"": ["a", "b", "c"]}, index=SHUFFLED),
    "mapping": {"": pd.Series(["a", "b", "c"], index=SHUFFLED)},
    "polars": pl.Series(["a", "b", "c"]),
    "polars frame": pl.DataFrame({"": ["a", "b", "c"]}),
    "arrow": pa.array(["a", "b", "c"]),
    "arrow chunks": pa.chunked_array([["a"], ["b", "c"]]),
}


@pytest.mark.parametrize("entries", ENTRIES.values(), ids=ENTRIES.keys())
def test_what_is_shown_of_a_row_is_found_by_its_place(entries: Any) -> None:
    display = read_display(entries, problem_of(3))
    assert display is not None
    assert [display.texts(row)[""] for row in range(3)] == ["a", "b", "c"]


def test_image_files_are_found_by_their_place(tmp_path: Path) -> None:
    files = pd.Series([tmp_path / name for name in "abc"], index=SHUFFLED)
    display = read_display(files, problem_of(3))
    assert display is not None
    assert [display.images[row].name for row in range(3)] == ["a", "b", "c"]


def test_missing_entries_of_arrow_are_shown_as_nothing() -> None:
    display = read_display(pa.array(["a", None, "c"]), problem_of(3))
    assert display is not None
    assert display.texts(1) == {"": ""}


def test_halves_of_level_sets_are_compared_with_each_other() -> None:
    sample = Sigmoid(perturbation="step").sample(3_000, random_state=2)
    halves = repartitioned(epiloss.audit(sample.y, sample.scores, sample.X), "halves").regions
    lower, upper = (halves["region"] == half for half in (0, 1))
    np.testing.assert_array_equal(halves["pvalue"][lower], halves["pvalue"][upper])
    np.testing.assert_array_equal(halves["pvalue_adjusted"][lower], halves["pvalue_adjusted"][upper])
    # against the rate of its level set, which is half its own, a half would seem too close
    alone = rate_pvalue(halves["label_mean"] * halves["n"], halves["n"], halves["expected"])
    clear = (alone > 1e-12) & (alone < 0.2)
    assert clear.sum() >= 10
    assert (halves["pvalue"][clear] < alone[clear]).all()
    weight = halves["n"][lower] + halves["n"][upper]
    apart = halves["deviation"][upper] - halves["deviation"][lower]
    assert difference_of_halves(halves) == pytest.approx(np.average(apart, weights=weight), rel=1e-3)


@pytest.mark.slow
def test_halves_differ_by_chance_in_few_samples() -> None:
    """60 samples without a grouping loss: at a level of 5%, 8 or more differ in 1 of 100 runs."""
    wrong = 0
    for draw in range(60):
        sample = Sigmoid(grouping=0.0).sample(1_000, random_state=draw)
        halves = repartitioned(epiloss.audit(sample.y, sample.scores, sample.X), "halves")
        wrong += bool((halves.regions["pvalue_adjusted"] <= 0.05).any())
    assert wrong <= 7
