"""Segments of an audit: what is planted is told in words, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import epiloss
from epiloss._typing import Floats
from epiloss.segments.result import Segment, Segments

N = 4_000
Rows = tuple[dict[str, NDArray[Any]], Floats, NDArray[np.int64]]


def rows_with(inside: str, gap: float = 0.25, seed: int = 0, n: int = N) -> Rows:
    """Return features, scores and labels; a condition in Python says whose rate is higher."""
    rng = np.random.default_rng(seed)
    X: dict[str, NDArray[Any]] = {
        "age": rng.integers(18, 80, n),
        "income": np.where(rng.random(n) < 0.2, np.nan, rng.lognormal(3, 1, n).round(2)),
        "city": rng.choice(np.array(["Lima", "Oslo", "Rome"], object), n),
        "noise": rng.random(n),
    }
    scores = rng.uniform(0.1, 0.7, n)
    higher = eval(inside, {"np": np, **X})
    return X, scores, (rng.random(n) < scores + gap * higher).astype(np.int64)


def told(inside: str, **options: Any) -> Segments:
    X, scores, y = rows_with(inside)
    return epiloss.audit(y, scores, X, **options).segments


def test_two_conditions_are_told_by_name_and_by_a_rounded_threshold() -> None:
    first = told("(age > 50) & (city == 'Oslo')")[0]
    columns = {condition.name: condition for condition in first.conditions}
    assert set(columns) == {"age", "city"}
    assert columns["city"].only == "Oslo"
    assert 48 <= columns["age"].low <= 52
    assert first.direction == "under-predicted"
    assert first.low < 0.25 * (1 - first.share) < first.high
    assert len(first.description) < 40


def test_missing_values_are_told() -> None:
    assert "income is missing" in told("np.isnan(income)")[0].description


def test_known_values_are_told_without_a_threshold() -> None:
    """Ten draws in which a rare measurement raises the rate, whatever it shows."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n = 3_000
        lab = np.where(rng.random(n) < 0.7, np.nan, rng.normal(0, 40, n).round())
        scores = rng.uniform(0.1, 0.7, n)
        y = (rng.random(n) < scores + 0.2 * ~np.isnan(lab)).astype(np.int64)
        X = {"lab": lab, "age": rng.integers(20, 80, n).astype(float)}
        assert epiloss.audit(y, scores, X).segments[0].description == "lab is not missing"


def test_a_threshold_among_known_values_is_told() -> None:
    rng = np.random.default_rng(0)
    n = 4_000
    lab = np.where(rng.random(n) < 0.3, np.nan, rng.normal(0, 40, n).round())
    scores = rng.uniform(0.1, 0.7, n)
    y = (rng.random(n) < scores + 0.25 * (lab > 10)).astype(np.int64)
    (condition,) = epiloss.audit(y, scores, {"lab": lab}).segments[0].conditions
    assert 5 <= condition.low <= 15


def test_row_numbers_are_not_searched() -> None:
    rng = np.random.default_rng(0)
    n = 3_000
    scores = rng.uniform(0.1, 0.7, n)
    number, half = np.arange(n) + 1_000, np.arange(n) < n / 2
    y = (rng.random(n) < scores + 0.2 * half).astype(np.int64)
    found = epiloss.audit(y, scores, {"id": number, "noise": rng.normal(size=n)}).segments
    assert len(found) == 0
    assert "Row numbers are not searched: id." in str(found)
    skewed = np.exp(rng.normal(9, 1, n)).round() + np.arange(n) / n  # distinct, but not integers
    amounts = epiloss.audit(y, scores, {"amount": np.where(half, skewed, -skewed)}).segments
    assert "amount" in amounts[0].description


def test_lower_rates_are_over_predicted() -> None:
    X, scores, y = rows_with("(age <= 30)", gap=-0.1)
    first = epiloss.audit(y, scores, X).segments[0]
    assert first.direction == "over-predicted"
    assert first.gap < 0


def test_segments_are_few_large_and_in_the_order_of_their_costs() -> None:
    segments = told("(age > 60) | (city == 'Rome')")
    assert 1 <= len(segments) <= 10
    assert all(one.n >= 50 and one.n >= 0.01 * N and len(one.conditions) <= 3 for one in segments)
    costs = [one.cost for one in segments]
    assert costs == sorted(costs, reverse=True)
    assert all(one.low * one.high > 0 and one.pvalue <= 0.05 for one in segments)


def test_columns_without_a_gap_are_listed() -> None:
    segments = told("(age > 50)")
    assert {"income", "city", "noise"} <= set(segments.passed)
    assert "age" not in segments.passed
    assert "No gap found for income" in str(segments)


def test_rows_of_a_segment_are_those_that_meet_its_conditions() -> None:
    X, scores, y = rows_with("(age > 50) & (city == 'Oslo')")
    first = epiloss.audit(y, scores, X).segments[0]
    low = next(one.low for one in first.conditions if one.name == "age")
    expected = np.flatnonzero((X["age"] > low) & (X["city"] == "Oslo"))
    assert first.rows.tolist() == expected.tolist()
    assert first.rate == pytest.approx(y[expected].mean())
    assert first.score_mean == pytest.approx(scores[expected].mean())


def test_rows_are_counted_as_the_user_does_where_some_were_dropped() -> None:
    X, scores, y = rows_with("(age > 50) & (city == 'Oslo')")
    scores[:100] = np.nan
    first = epiloss.audit(y, scores, X, drop_missing=True).segments[0]
    assert first.rows.min() >= 100
    assert (X["city"][first.rows] == "Oslo").all()


def test_the_order_of_rows_and_the_number_of_threads_do_not_matter() -> None:
    X, scores, y = rows_with("(age > 50) & (city == 'Oslo')")
    order = np.random.default_rng(5).permutation(N)
    again = epiloss.audit(y[order], scores[order], {k: v[order] for k, v in X.items()}, n_jobs=2)
    one = epiloss.audit(y, scores, X, n_jobs=1)
    assert again.segments.to_dict()["segments"] == one.segments.to_dict()["segments"]


def test_segments_are_searched_for_once_and_do_not_change_what_is_saved() -> None:
    X, scores, y = rows_with("(age > 50)")
    result = epiloss.audit(y, scores, X)
    before = result.to_dict()
    assert result.segments is result.segments
    assert result.to_dict() == before


def test_large_data_are_divided_into_rows_that_find_and_rows_that_measure() -> None:
    X, scores, y = rows_with("(age > 50) & (city == 'Oslo')", gap=0.1, seed=1, n=25_000)
    first = epiloss.audit(y, scores, X, method="partition").segments[0]
    assert {condition.name for condition in first.conditions} == {"age", "city"}
    assert first.low < 0.1 * (1 - first.share) < first.high


def test_subgroups_without_features_are_told() -> None:
    X, scores, y = rows_with("(city == 'Oslo')")
    segments = epiloss.audit(y, scores, subgroups={"city": X["city"]}).segments
    assert segments[0].description == "city is Oslo"
    both = epiloss.audit(y, scores, subgroups={"city": X["city"], "old": X["age"] > 50}).segments
    assert both[0].description in ("city=Oslo, old=False", "city=Oslo, old=True")


def test_without_features_it_says_what_is_lacking() -> None:
    _, scores, y = rows_with("(age > 50)")
    assert "Pass features" in str(epiloss.audit(y, scores).segments)


def test_few_rows_are_not_searched() -> None:
    X, scores, y = rows_with("(age > 50)", n=150)
    assert "too few rows" in str(epiloss.audit(y, scores, X).segments)


def test_of_several_classes_the_claimed_one_may_be_a_condition() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(N, 3)) * 1.5
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    top = probabilities.argmax(axis=1)
    right = rng.random(N) < probabilities.max(axis=1) - 0.3 * (top == 2)
    y = np.where(right, top, (top + rng.integers(1, 3, N)) % 3)
    for task in ("top-label", "classwise"):
        result = epiloss.audit(
            np.array(["a", "b", "c"])[y], probabilities, rng.random((N, 3)), task=task
        )
        assert result.segments[0].description == "predicted class is c"
        assert result.segments[0].direction == "over-predicted"


def embedding_rows() -> tuple[NDArray[np.float32], Floats, NDArray[np.int64], NDArray[np.bool_]]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(8, 64)) * 3
    kind = rng.integers(0, 8, N)
    X = (centres[kind] + rng.normal(size=(N, 64))).astype(np.float32)
    scores = rng.uniform(0.1, 0.7, N)
    odd = kind == 3
    return X, scores, (rng.random(N) < scores + 0.25 * odd).astype(np.int64), odd


def test_segments_of_an_embedding_are_clusters_told_by_typical_rows() -> None:
    X, scores, y, odd = embedding_rows()
    first = epiloss.audit(y, scores, X, method="partition").segments[0]
    assert first.description.startswith("rows like ")
    assert odd[first.rows].mean() > 0.9


def test_segments_of_an_embedding_are_told_by_the_columns_on_display() -> None:
    X, scores, y, odd = embedding_rows()
    display = {"kind": np.where(odd, "odd", "even"), "id": np.arange(N).astype(str)}
    result = epiloss.audit(y, scores, X, method="partition", display=display)
    assert result.segments[0].description == "kind is odd"
    assert result.segments_by({"kind": display["kind"]})[0].n == odd.sum()


def test_texts_are_told_by_their_words() -> None:
    X, scores, y, odd = embedding_rows()
    texts = [f"{'refund' if one else 'thanks'} of order {k}" for k, one in enumerate(odd)]
    first = epiloss.audit(y, scores, X, method="partition").segments_by(texts)[0]
    assert first.description in ("text contains 'refund'", "text does not contain 'thanks'")


def test_nothing_can_be_told_by_images() -> None:
    X, scores, y, _ = embedding_rows()
    result = epiloss.audit(y, scores, X, method="partition")
    with pytest.raises(epiloss.errors.DataError, match="columns must be a data frame"):
        result.segments_by(np.zeros((N, 4, 4)))


SEGMENT = Segment("a < b & c", (), 120, 0.12, 0.31, 0.42, 0.33, 0.08, 0.03, 0.13, 1e-20, 0.0008, 0.2)


def test_segments_print_as_text_and_html_and_become_tables() -> None:
    segments = Segments((SEGMENT,), ("sex", "region"))
    text = str(segments)
    assert all(part in text for part in ("+8.0 [+3.0, +13.0]", "<1e-15", "under-predicted"))
    assert text.endswith("No gap found for sex, region.")
    assert "adjusted for the search" in text
    assert "adjusted" not in str(Segments((replace(SEGMENT, gap=0.09),)))
    assert "a &lt; b &amp; c" in segments._repr_html_()
    assert segments.table["n"].tolist() == [120]
    assert json.loads(json.dumps(segments.to_dict()))["segments"][0]["direction"] == "under-predicted"
    assert segments[0] is SEGMENT
    assert segments[:1] == (SEGMENT,)
    assert len(segments) == 1


def test_none_found_is_said() -> None:
    assert str(Segments(())).startswith("No segment found")
    assert Segments((), note="x")._repr_html_() == "<p>x</p>"
    assert len(Segments(()).table) == 0


def test_a_loss_without_segments_is_said_to_be_spread(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, scores = rng.normal(size=(900, 30)), rng.uniform(0.3, 0.7, 900)
    shift = 0.15 * np.sign(X.sum(axis=1))  # every column tells a little
    for more, is_spread in ((shift, True), (0 * shift, False)):
        y = (rng.random(900) < scores + more).astype(np.int64)
        result = epiloss.audit(y, scores, X)
        assert not result.segments.segments
        assert ((result.grouping_loss.pvalue or 0.0) < 0.01) == is_spread
        printed = "Segments: none found. The grouping loss is spread over rows" in str(result)
        page = " ".join(result.to_html(tmp_path / "page.html").split())
        assert printed == is_spread
        assert ("is spread over rows that a few conditions do not describe" in page) == is_spread


def test_a_segment_next_to_an_earlier_one_leaves_its_rows_out() -> None:
    rng = np.random.default_rng(0)
    length = rng.integers(1, 11, 20_000)
    scores = rng.uniform(0.3, 0.7, len(length))
    rate = scores - np.select([length <= 3, length == 4], [0.25, 0.12], 0.0)
    y = (rng.random(len(length)) < rate).astype(np.int64)
    found = epiloss.audit(y, scores, {"length": length, "noise": rng.random(len(length))}).segments
    named = {one.description: one for one in found}
    assert "length is 4" in named
    rows = np.concatenate([one.rows for one in found])
    assert len(np.unique(rows)) == len(rows)
    curve = scores.mean() - rate.mean()  # how much all rows are below their scores
    assert named["length is 4"].low < -0.12 + curve < named["length is 4"].high


def test_hostile_names_cannot_control_a_terminal() -> None:
    X, scores, y = rows_with("(city == 'Oslo')")
    named = {"a\x1b[31m\u202e": X["city"], "b\x07\n": X["noise"], "": X["income"]}
    found = epiloss.audit(y, scores, named).segments
    compared = epiloss.compare(y, {"m\x1b[2J": scores, "n": scores**2}, named)
    for text in (str(found), str(found[0]), str(compared)):
        assert all(character.isprintable() or character == "\n" for character in text)
    assert str(found).endswith("No gap found for b\\x07\\n, ''.")
