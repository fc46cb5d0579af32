"""Codes of columns: each side of a split holds just the rows that its words say."""

from __future__ import annotations

import re

import numpy as np

import epiloss
from epiloss.input.features import Features
from epiloss.partition.descriptions import describe
from epiloss.segments.columns import coded_columns, in_days, rounded


def table(n: int = 3_000) -> Features:
    rng = np.random.default_rng(0)
    income = np.exp(rng.normal(size=n))
    income[rng.random(n) < 0.2] = np.nan
    gains = np.where(rng.random(n) < 0.95, 0.0, rng.integers(100, 9_000, n))
    city = rng.choice(np.array(["Oslo", "Paris", "Rome", None], object), n)
    return Features.read(
        {"age": rng.integers(18, 90, n), "income": income, "gains": gains, "city": city}
    )


def test_a_side_holds_the_rows_that_its_split_says() -> None:
    features = table()
    for column in coded_columns(features, 50):
        for side in column.sides:
            rule = describe([side.step], features)
            assert (rule.holds(features) == side.allowed[column.codes]).all(), str(rule)


def test_coarse_sides_cut_through_no_cell() -> None:
    for column in coded_columns(table(), 50):
        for place, cells in zip(column.places, column.coarse, strict=True):
            assert (column.sides[place].allowed[column.codes] == (cells[column.cells] > 0)).all()


def test_a_value_that_most_rows_share_leaves_cells_for_the_others() -> None:
    features = table()
    gains = coded_columns(features, 50)[2]
    assert len(np.unique(gains.cells)) == 8


def test_columns_of_one_value_are_left_out() -> None:
    features = Features.read({"same": np.ones(500), "other": np.arange(500.0) / 7})
    assert [column.sides[0].column for column in coded_columns(features, 5)] == [1]


def test_whole_numbers_are_parted_at_whole_numbers() -> None:
    ages = np.sort(np.random.default_rng(0).integers(18, 90, 4_000)).astype(float)
    edges = np.unique(ages)[:-1] + 0.5
    assert (rounded(edges, ages) % 1 == 0).all()
    assert len(rounded(edges, ages)) == len(edges)


def test_datetimes_are_cut_at_midnight_unless_that_moves_many_rows() -> None:
    start, day = np.datetime64("2020-01-01", "us").astype(float), 86_400e6
    years = np.sort(start + np.random.default_rng(0).uniform(0, 1_000 * day, 4_000)).round()
    edges = in_days(np.quantile(years, [0.25, 0.5]).round(), years)
    assert ((edges + 1) % day == 0).all()
    hours = np.sort(start + np.random.default_rng(0).uniform(0, day, 4_000)).round()
    edges = np.quantile(hours, [0.25, 0.5]).round()
    assert in_days(edges, hours).tolist() == edges.tolist()


def test_segments_of_datetimes_are_described_by_days() -> None:
    rng = np.random.default_rng(0)
    seconds = rng.integers(0, 86_400 * 1_000, 6_000)
    when = np.datetime64("2020-01-01T00:00:00") + seconds.astype("timedelta64[s]")
    scores = rng.uniform(0.2, 0.6, len(when))
    late = when >= np.datetime64("2022-01-01")
    y = (rng.random(len(when)) < scores + 0.25 * late).astype(np.int64)
    found = epiloss.audit(y, scores, {"when": when, "noise": rng.random(len(when))}).segments
    assert re.fullmatch(r"when is after 202[12]-\d\d-\d\d", found[0].description)
    first = np.datetime64(found[0].description[-10:]) + np.timedelta64(1, "D")
    assert (when[found[0].rows] >= first).all()
    assert (when >= first).sum() == found[0].n
