"""Tracking: no alarm without a change, outcomes told from the population, rows counted once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import epiloss
from epiloss.analysis.periods import read_periods
from epiloss.errors import DataError, OptionError


@dataclass(frozen=True)
class Rows:
    y: Any
    p: Any
    X: dict[str, Any]
    day: Any

    @property
    def sample(self) -> tuple[Any, Any, Any]:
        return self.y, self.p, self.X


def draw(
    n_days: int,
    seed: int,
    *,
    outcome: float = 0.0,
    share: float = 0.0,
    storm: int = -1,
    noise: float = 0.0,
) -> Rows:
    """Draw 100 rows a day; from day 20 on one ward has other outcomes, or another share.

    ``noise`` is the standard deviation of the log-odds between days.
    """
    generator = np.random.default_rng(seed)
    day = np.repeat(np.arange(n_days), 100)
    late = day >= 20
    ward = np.where(generator.random(len(day)) < 0.3 + share * late, "B", "A")
    x = generator.normal(size=len(day))
    by_day = noise * np.random.default_rng([seed, 1]).normal(size=n_days)
    q = expit(x + 0.7 * (ward == "A") + by_day[day])
    q = np.clip(q + outcome * (late & (ward == "B")), 0, 1)
    q = np.where(day == storm, 0.02, q)
    y = (generator.random(len(day)) < q).astype(int)
    return Rows(y, expit(x), {"x": x, "ward": ward}, day)


def track(after: Rows, **options: Any) -> epiloss.Tracking:
    before = draw(60, 1)
    return epiloss.track(before.sample, after.sample, after.day, reference_when=before.day, **options)


@pytest.fixture(scope="module")
def quiet() -> epiloss.Tracking:
    return track(draw(60, 2))


@pytest.fixture(scope="module")
def changed() -> epiloss.Tracking:
    return track(draw(60, 2, outcome=0.2))


def test_without_a_change_there_is_no_alarm(quiet: epiloss.Tracking) -> None:
    assert quiet.alarms == ()
    assert not quiet.losses_changed
    assert not quiet.population_changed
    assert quiet.verdict.startswith("No change was found in 60 batches, neither")
    assert (quiet.changes["alarm"] == "").all()
    inside = (quiet.changes["low"] <= 0) & (quiet.changes["high"] >= 0)
    known = ~np.isnan(quiet.changes["change"])
    assert inside[known].all()


def test_a_change_of_outcomes_is_told_with_its_group_its_size_and_its_beginning(
    changed: epiloss.Tracking,
) -> None:
    (alarm,) = changed.alarms
    assert (alarm.kind, alarm.name) == ("losses", "ward is B")
    assert 20 <= int(alarm.period) < 35
    assert abs(int(alarm.since) - 20) <= 4
    row = next(one for one in changed.changes.rows() if one["name"] == "ward is B")
    assert row["low"] < 0.2 < row["high"]
    assert row["change"] == pytest.approx(row["current"] - row["expected"], abs=1e-12)
    assert "where ward is B" in str(changed)


def test_a_change_of_the_population_is_not_taken_for_one_of_the_losses() -> None:
    result = track(draw(60, 3, share=0.3))
    (alarm,) = result.alarms
    assert alarm.kind == "population"
    assert alarm.name.startswith("ward is ")
    assert 20 <= int(alarm.period) < 26
    shares = [row for row in result.changes.rows() if row["kind"] == "population"]
    row = next(row for row in shares if row["name"] == "ward is B")
    assert row["change"] == pytest.approx(0.3, abs=0.04)
    assert abs(int(row["since"]) - 20) <= 2


def test_a_single_bad_day_raises_no_alarm_where_days_of_the_reference_are_known() -> None:
    storm = draw(60, 4, storm=30)
    assert track(storm).alarms == ()
    before = draw(60, 1)
    blind = epiloss.track(before.sample, storm.sample, storm.day)
    assert [one.period for one in blind.alarms] == ["30"]
    assert "days-independent" in {one.code for one in blind.remarks}


@pytest.mark.parametrize("by", ["week", "month"])
def test_noise_of_days_is_known_where_the_reference_has_few_weeks_or_months(by: str) -> None:
    start = np.datetime64("2024-01-01")
    for seed in range(3):
        before, after = draw(60, seed, noise=0.6), draw(120, seed + 10, noise=0.6)
        result = epiloss.track(
            before.sample,
            after.sample,
            start + 60 + after.day,
            reference_when=start + before.day,
            by=by,
        )
        assert result.alarms == ()
        assert "days-independent" not in {one.code for one in result.remarks}


def test_a_reference_of_few_days_is_told() -> None:
    before = draw(6, 1)
    result = epiloss.track(before.sample, draw(5, 2).sample, draw(5, 2).day, reference_when=before.day)
    (remark,) = (one for one in result.remarks if one.code == "days-independent")
    assert "fewer than ten days" in str(remark)
    assert "Use a longer reference" in str(remark)


def test_the_ledger_of_each_batch_adds_up_and_is_that_of_its_rows(quiet: epiloss.Tracking) -> None:
    periods, rows = quiet.periods, draw(60, 2)
    parts = sum(periods[name] for name in ("calibration_loss", "grouping_loss", "remainder"))
    np.testing.assert_allclose(parts, periods["score"], rtol=1e-12)
    first = rows.day == 0
    assert periods["score"][0] == pytest.approx(np.mean((rows.p[first] - rows.y[first]) ** 2))
    assert periods["n"].tolist() == [100] * 60


def test_the_change_of_the_score_is_that_of_population_and_losses(changed: epiloss.Tracking) -> None:
    parts = {name: one.value for name, one in changed.score_change.items()}
    assert parts["score"] == pytest.approx(parts["population"] + parts["losses"], abs=1e-12)
    assert set(parts) == {"score", "population", "losses"}


def test_the_order_of_the_rows_within_days_does_not_matter(quiet: epiloss.Tracking) -> None:
    rows = draw(60, 2)
    order = np.random.default_rng(0).permutation(len(rows.y))
    X = {name: one[order] for name, one in rows.X.items()}
    again = track(Rows(rows.y[order], rows.p[order], X, rows.day[order]))
    for name in ("score", "evidence_losses", "evidence_population"):
        np.testing.assert_allclose(again.periods[name], quiet.periods[name], atol=1e-9)


def test_what_was_known_earlier_does_not_change_with_later_batches(changed: epiloss.Tracking) -> None:
    """An alarm is never taken back: the evidence of a day is that of the days up to then."""
    rows = draw(60, 2, outcome=0.2)
    some = rows.day < 40
    X = {name: one[some] for name, one in rows.X.items()}
    short = track(Rows(rows.y[some], rows.p[some], X, rows.day[some]))
    assert short.alarms == changed.alarms
    np.testing.assert_allclose(
        short.periods["evidence_losses"], changed.periods["evidence_losses"][:40], atol=1e-9
    )


def test_subgroups_are_watched_too() -> None:
    before, after = draw(60, 1), draw(60, 2, outcome=0.2)

    def sample(rows: Rows) -> dict[str, Any]:
        return {
            "y_true": rows.y,
            "y_prob": rows.p,
            "X": {"x": rows.X["x"]},
            "subgroups": {"unit": rows.X["ward"]},
        }

    result = epiloss.track(sample(before), sample(after), after.day, reference_when=before.day)
    assert result.alarms[0].name == "unit is B"
    with pytest.raises(DataError, match="must have the subgroups of the reference, unit, got none"):
        epiloss.track(sample(before), {**sample(after), "subgroups": None}, after.day)


def test_an_unknown_value_of_a_category_is_a_change_of_the_population() -> None:
    after = draw(60, 5)
    new = np.where(after.day >= 30, "C", after.X["ward"])
    result = track(Rows(after.y, after.p, {**after.X, "ward": new}, after.day))
    alarm = next(one for one in result.alarms if one.kind == "population")
    assert alarm.name in ("ward is another value", "ward is A", "ward is B")
    assert 30 <= int(alarm.period) < 36


def test_a_tracking_is_saved_read_back_and_drawn(changed: epiloss.Tracking, tmp_path: Path) -> None:
    path = tmp_path / "year.json"
    changed.to_json(path)
    again = epiloss.load_result(path)
    assert str(again) == str(changed)
    assert again.to_dict() == changed.to_dict()
    page = changed.to_html(title="A <b>year</b>", model="m1", date="")
    assert again.to_html(title="A <b>year</b>", model="m1", date="") == page
    assert "A &lt;b&gt;year&lt;/b&gt;" in page
    assert "Outcomes changed" in page
    pytest.importorskip("matplotlib")
    display = changed.plot()
    assert len(display.evidence_) == 2
    np.testing.assert_array_equal(display.score_.get_ydata(), changed.periods["score"])


def test_what_cannot_be_tracked_is_told() -> None:
    before, after = draw(60, 1), draw(10, 2)
    with pytest.raises(DataError, match="when must have one value for each of the 1,000 rows"):
        epiloss.track(before.sample, after.sample, after.day[:-1])
    with pytest.raises(OptionError, match=r"by must be one of .* got 'year'"):
        epiloss.track(before.sample, after.sample, after.day, by="year")
    with pytest.raises(OptionError, match=r"options of track must be among .*, got 'n_bins'"):
        epiloss.track(before.sample, after.sample, after.day, n_bins=5)
    with pytest.raises(DataError, match="must hold dates to be grouped by week"):
        epiloss.track(before.sample, after.sample, after.day, by="week")
    with pytest.raises(DataError, match="at least 500 rows"):
        epiloss.track(draw(2, 1).sample, after.sample, after.day)
    p = np.column_stack([1 - before.p, before.p])
    with pytest.raises(OptionError, match="'binary' or 'top-label' to track"):
        epiloss.track((before.y, p, before.X), after.sample, after.day, task="classwise")


def test_text_is_read_as_dates_or_refused_where_its_order_is_unclear() -> None:
    given = np.array(["2024-01-08T01:30", "2024-02-29 12:00:01.5", "2024-01-07"], object)
    assert read_periods(given, None, 3, "when")[1] == ["2024-01-07", "2024-01-08", "2024-02-29"]
    assert read_periods(given, "month", 3, "when")[1] == ["2024-01", "2024-02"]
    assert read_periods(given, "value", 3, "when")[1] == sorted(given)
    for clear in (["2024-02", "2024-01"], ["b", "a"], ["week 02", "week 10"], ["Q1", "Q2"]):
        assert read_periods(clear, None, 2, "when")[1] == sorted(clear)
    for unclear in (
        ["28/02/2024", "01/03/2024"],
        ["02-28-24", "03-01-24"],
        ["Feb 28 2024", "Mar 1 2024"],
        ["28 February 2024", "1 March 2024"],
        ["week 2", "week 10"],
    ):
        with pytest.raises(DataError, match="when must hold dates such as 2024-06-30 or values in"):
            read_periods(unclear, None, 2, "when")
    with pytest.raises(DataError, match="with none missing"):
        read_periods(np.array(["2024-01-07", np.nan], object), "value", 2, "when")


def test_moments_become_days_weeks_or_months() -> None:
    moments = np.array(["2024-01-07T23", "2024-01-08T01", "2024-02-29T12"], "datetime64[h]")
    for by, names in {
        None: ["2024-01-07", "2024-01-08", "2024-02-29"],
        "week": ["2024-01-07", "2024-01-08", "2024-02-26"],  # the first is a part of a week
        "month": ["2024-01", "2024-02"],
        "value": ["2024-01-07T23", "2024-01-08T01", "2024-02-29T12"],
    }.items():
        assert read_periods(moments, by, 3, "when")[1] == names
    with pytest.raises(DataError, match="must not be missing, got no date at row 1"):
        read_periods(np.array(["2024-01-07", "NaT"], "datetime64[D]"), None, 2, "when")
