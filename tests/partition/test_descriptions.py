"""Regions in words: the rule holds for exactly the rows of the region, and says nothing twice."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import epiloss
from epiloss.input.features import Features
from epiloss.partition import Partitioner, Stump, Tree
from epiloss.partition import thresholds as words_of
from epiloss.partition.base import LearningRows
from epiloss.partition.descriptions import Describer, Description, Step, describe
from epiloss.partition.thresholds import format_number
from epiloss.scoring import Brier

LAW = settings(deadline=None, derandomize=True, max_examples=100)


def table(n: int, seed: int) -> Features:
    rng = np.random.default_rng(seed)
    income = rng.normal(size=n)
    income[rng.random(n) < 0.2] = np.nan
    city = rng.choice(np.array(["Oslo", "Paris", "Rome", None], object), n)
    return Features.read({"age": rng.integers(18, 90, n), "income": income, "city": city})


def learning_rows(features: Features, seed: int) -> LearningRows:
    rng = np.random.default_rng(seed)
    n = features.n_rows
    age, city = features.column(0), features.column(2)
    labels = (rng.random(n) < 0.2 + 0.5 * (age > 50) * (city == 1)).astype(float)
    return LearningRows(features, labels, rng.integers(0, 3, n), 3, None, Brier())


@pytest.mark.parametrize("partitioner", [Tree(30), Stump()], ids=["tree", "stump"])
@pytest.mark.parametrize("seed", range(4))
def test_the_rule_of_a_region_holds_for_its_rows_and_no_others(
    partitioner: Partitioner, seed: int
) -> None:
    rows = learning_rows(table(1_500, seed), seed)
    partition = partitioner.fit(rows, np.random.default_rng(0), None)
    fresh = table(1_000, seed + 100)
    level_set = np.random.default_rng(seed).integers(0, 3, 1_000)
    region = partition.assign(fresh, level_set)
    for level, one in set(zip(level_set.tolist(), region.tolist(), strict=True)):
        path = partition.path(level, one)
        assert path is not None
        inside = describe(path, fresh).holds(fresh) & (level_set == level)
        np.testing.assert_array_equal(inside, (level_set == level) & (region == one))


def test_bounds_on_one_feature_become_one_range() -> None:
    features = Features.read({"age": [1.5, 2.0], "sex": ["f", "m"]})
    steps = [
        Step(0, False, 60.5, left=True, missing_left=False),
        Step(1, True, 0.0, left=True, missing_left=False),
        Step(0, False, 30.5, left=False, missing_left=False),
        Step(0, False, 47.5, left=True, missing_left=False),
    ]
    assert str(describe(steps, features)) == "30.5 < age <= 47.5 and sex is f"


def test_missing_values_are_said_where_there_are_any() -> None:
    features = Features.read({"age": [1.5, np.nan], "sex": ["f", None]})
    low = Step(0, False, 47.5, left=True, missing_left=True)
    high = Step(0, False, 47.5, left=False, missing_left=True)
    assert str(describe([low], features)) == "age <= 47.5 or missing"
    assert str(describe([high], features)) == "age > 47.5"
    known = Step(1, True, np.nan, left=False, missing_left=True)
    other = Step(1, True, 0.0, left=False, missing_left=False)
    assert str(describe([other, known], features)) == "sex is neither f nor missing"
    unknown = Step(1, True, np.nan, left=True, missing_left=True)
    assert str(describe([other, unknown], features)) == "sex is missing"


def test_a_split_on_missingness_alone_is_said_as_such() -> None:
    features = Features.read({"income": [1.5, np.nan], "sex": ["f", "m"]})
    known = Step(0, False, np.inf, left=True, missing_left=False)
    unknown = Step(0, False, np.inf, left=False, missing_left=False)
    low = Step(0, False, 3.0, left=True, missing_left=True)
    high = Step(0, False, 3.0, left=False, missing_left=True)
    said = {
        "income is missing": [[unknown], [low, unknown]],
        "income is not missing": [[known]],
        "income <= 3 or missing": [[low]],
        "income <= 3": [[low, known], [known, low]],
        "income > 3": [[high], [known, high]],
    }
    for words, paths in said.items():
        assert [str(describe(path, features)) for path in paths] == [words] * len(paths)
    complete = Features.read({"income": [1.0, 2.0]})
    assert str(describe([known], complete)) == "income is not missing"
    nothing = Step(0, False, np.inf, left=True, missing_left=True)
    assert str(describe([nothing], features)) == "all rows"


def test_an_audit_says_where_values_are_missing() -> None:
    rng = np.random.default_rng(0)
    x, s = np.round(np.exp(rng.normal(10, 0.6, 4_000))), rng.uniform(0.3, 0.7, 4_000)
    x[rng.random(4_000) < 0.5] = np.nan
    y = (rng.random(4_000) < np.clip(s + np.where(np.isnan(x), 0.25, -0.25), 0, 1)).astype(int)
    result = epiloss.audit(y, s, {"income": x}, n_bins=1, partition=Tree(900))
    assert set(result.regions["rule"]) == {"income is missing", "income is not missing"}
    assert "segment: income is missing" in str(result.verdict)


def test_a_condition_with_or_stands_in_brackets_beside_another() -> None:
    features = Features.read({"age": [1.5, np.nan], "sex": ["f", "m"]})
    low = Step(0, False, 47.5, left=True, missing_left=True)
    female = Step(1, True, 0.0, left=True, missing_left=False)
    neither = [Step(1, True, code, left=False, missing_left=False) for code in (0.0, 1.0)]
    missing = Step(0, False, np.inf, left=False, missing_left=False)
    assert str(describe([low, female], features)) == "(age <= 47.5 or missing) and sex is f"
    assert (
        str(describe([*neither, low], features)) == "sex is neither f nor m and (age <= 47.5 or missing)"
    )
    assert str(describe([missing, female], features)) == "age is missing and sex is f"


def test_moments_and_truth_values_keep_their_units() -> None:
    when = np.array(["2024-01-01", "2025-01-01"], "datetime64[D]")
    features = Features.read({"when": when, "smokes": np.array([True, False])})
    noon = float(np.datetime64("2024-07-02T12:00", "us").astype(int))
    steps = [Step(0, False, noon, left=False, missing_left=False), Step(1, False, 0.5, True, False)]
    assert str(describe(steps, features)) == "when is after 2024-07-02 and smokes is false"


def test_ends_that_would_look_alike_are_shown_in_more_digits() -> None:
    features = Features.read({"x": [1.5]})
    steps = [
        Step(0, False, 1_000_000.25, left=False, missing_left=False),
        Step(0, False, 1_000_000.75, left=True, missing_left=False),
    ]
    assert str(describe(steps, features)) == "1,000,000.2 < x <= 1,000,000.7"


@pytest.mark.parametrize(
    ("values", "threshold", "words"),
    [
        ([-1000.7, -1000.2], -1000.45, "c > -1000.5"),
        ([1234567.25, 1234567.75], 1234567.5, "c > 1,234,567.5"),
        ([1234567.0, 1234568.0], 1234567.5, "c is 1,234,568"),
        ([1234567.0, 1234568.0, 1234569.0], 1234567.5, "c > 1,234,567"),
        ([1200567.0, 1234568.0, 1234569.0], 1234560.5, "c > 1,234,000"),
        ([3.0000001e-9, 3.0000003e-9], 3.0000002e-9, "c > 3.0000002e-09"),
        ([0.1, np.nextafter(0.1, 1)], 0.1, "c > 0.1"),
        ([48.0, 49.5], 48.5, "c > 48.5"),
    ],
)
def test_a_threshold_is_shown_between_the_values_it_parts(
    values: list[float], threshold: float, words: str
) -> None:
    step = Step(0, False, threshold, left=False, missing_left=False)
    assert str(describe([step], Features.read({"c": values}))) == words


@LAW
@given(
    st.floats(-1e12, 1e12) | st.floats(-1, 1),
    st.lists(st.floats(0, 1), min_size=2, max_size=20, unique=True),
    st.data(),
)
def test_the_shown_threshold_parts_the_rows_as_the_true_one_does(
    centre: float, spread: list[float], data: st.DataObject
) -> None:
    values = np.array(spread) + centre
    features = Features.read({"x": values})
    threshold = data.draw(st.floats(float(values.min()), float(values.max())))
    words = str(describe([Step(0, False, threshold, left=True, missing_left=False)], features))
    np.testing.assert_array_equal(meets(words, values), values <= threshold)


def meets(words: str, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which values meet a condition on x by its words alone."""
    number = r"(-?[\d,.]+(?:e[-+]?\d+)?)"
    forms: dict[str, Callable[..., Any]] = {
        f"{number} < x <= {number}": lambda a, b: (values > a) & (values <= b),
        f"x is {number} to {number}": lambda a, b: (values >= a) & (values <= b),
        f"x is {number}": lambda a: values == a,
        f"x <= {number}": lambda a: values <= a,
        f"x >= {number}": lambda a: values >= a,
        f"x < {number}": lambda a: values < a,
        f"x > {number}": lambda a: values > a,
    }
    for form, holds in forms.items():
        found = re.fullmatch(form, words)
        if found:
            return np.asarray(holds(*(float(one.replace(",", "")) for one in found.groups())))
    raise AssertionError(words)


@LAW
@given(
    st.lists(st.integers(-50, 50) | st.integers(-20_000, 20_000), min_size=1, max_size=30),
    st.floats(-21_000, 21_000) | st.integers(-60, 60),
    st.floats(0.5, 30_000) | st.integers(1, 8),
    st.sampled_from(["low", "high", "both"]),
)
def test_whole_numbers_are_said_as_such_and_hold_for_the_same_rows(
    numbers: list[int], low: float, width: float, ends: str
) -> None:
    """No fraction is said, and no more than 4 digits where these part the rows."""
    values = np.array(numbers, float)
    steps = []
    if ends != "high":
        steps.append(Step(0, False, float(low), left=False, missing_left=False))
    if ends != "low":
        steps.append(Step(0, False, float(low + width), left=True, missing_left=False))
    rule = describe(steps, Features.read({"x": values}))
    inside = rule.holds(Features.read({"x": values}))
    if inside.any():
        np.testing.assert_array_equal(meets(str(rule), values), inside)
        assert not re.search(r"\d\.\d", str(rule))


@pytest.mark.parametrize(
    ("values", "low", "high", "words"),
    [
        (range(1, 8), 2.0, 3.0, "x is 3"),
        (range(1, 8), 2.5, 5.5, "x is 3 to 5"),
        (range(1, 8), -np.inf, 1.5, "x is 1"),
        (range(1, 8), 6.0, np.inf, "x is 7"),
        ([0, 1], -np.inf, 0.5, "x is 0"),
        ([0, 1], 0.0, np.inf, "x is 1"),
        ([0, 5, 9], 0.0, np.inf, "x > 0"),
        (range(17, 91), 64.5, np.inf, "x >= 65"),
        (range(17, 91), 29.0, 60.0, "x is 30 to 60"),
        (range(17, 91), -np.inf, 29.5, "x < 30"),
        (range(1990, 2020), 1998.5, np.inf, "x >= 1999"),
        (range(1990, 2020), 1999.5, 2009.0, "x is 2000 to 2009"),
        ([0, 7_298, 7_688, 99_999], 7_400.0, np.inf, "x > 7400"),
        ([0, 7_298, 7_688, 99_999], 7_400.0, 50_000.0, "7400 < x <= 50,000"),
        ([10_001, 20_345, 31_000], 12_345.5, np.inf, "x > 12,340"),
        ([-9, -5, -1], -5.5, np.inf, "x >= -5"),
    ],
)
def test_whole_numbers_read_as_a_person_says_them(
    values: Any, low: float, high: float, words: str
) -> None:
    steps = [
        Step(0, False, low, left=False, missing_left=False),
        Step(0, False, high, left=True, missing_left=False),
    ]
    chosen = [step for step in steps if np.isfinite(step.threshold)]
    assert str(describe(chosen, Features.read({"x": np.array(list(values), float)}))) == words


def test_one_value_that_is_not_whole_is_enough_for_inequalities() -> None:
    values = np.arange(60_000, dtype=float) % 90
    step = Step(0, False, 64.0, left=False, missing_left=False)
    assert str(describe([step], Features.read({"x": values}))) == "x >= 65"
    values[41_234] = 64.5
    assert str(describe([step], Features.read({"x": values}))) == "x > 64"


def test_whole_numbers_with_missing_values_stay_whole() -> None:
    features = Features.read({"x": [1.0, 2.0, 3.0, np.nan]})
    step = Step(0, False, 1.5, left=False, missing_left=False)
    assert str(describe([step], features)) == "x >= 2 or missing"


def test_days_are_said_as_days() -> None:
    days = np.arange("2024-01-01", "2024-12-31", dtype="datetime64[D]")
    noon = [float(np.datetime64(f"2024-{m}T12:00", "us").astype(int)) for m in ("03-01", "07-02")]
    after, until = Step(0, False, noon[0], False, False), Step(0, False, noon[1], True, False)
    first = Step(0, False, float(np.datetime64("2024-01-01T01:00", "us").astype(int)), True, False)
    for kind in ("datetime64[D]", "datetime64[ns]"):
        features = Features.read({"day": days.astype(kind)})
        said = [str(describe(path, features)) for path in ([after], [until], [after, until], [first])]
        assert said == [
            "day is after 2024-03-01",
            "day is before 2024-07-03",
            "day is 2024-03-02 to 2024-07-02",
            "day is 2024-01-01",
        ]


def test_an_audit_shows_thresholds_inside_a_narrow_range() -> None:
    rng = np.random.default_rng(0)
    k, s = 1000 + rng.random(4_000), rng.uniform(0.35, 0.65, 4_000)
    y = (rng.random(4_000) < np.where(k > 1000.5, 0.8, 0.3)).astype(int)
    result = epiloss.audit(y, s, {"k": k}, partition="stump", n_bins=3)
    halves = [rule.split()[-1].replace(",", "") for rule in result.regions["rule"] if "k" in rule]
    assert halves
    assert all(1000.4 < float(half) < 1000.6 for half in halves)


def test_thresholds_are_told_apart_where_no_rows_are_at_hand() -> None:
    thresholds = [1000.111, 1000.112, 1000.9]
    paths = [[Step(0, False, t, left=True, missing_left=False)] for t in thresholds]
    features = Features.read({"x": [1.0]}).description()
    rules = Describer(features).describe(paths)
    shown = [float(str(rule).split()[-1].replace(",", "")) for rule in rules]
    assert len(set(shown)) == 3
    np.testing.assert_allclose(shown, thresholds, atol=0.008, rtol=0)


def test_no_split_is_no_condition() -> None:
    assert str(Description((), ())) == "all rows"
    assert Description((), ()).holds(Features.read(np.zeros((3, 1)))).all()


@LAW
@given(st.floats(-1e14, 1e14), st.integers(3, 9))
def test_a_formatted_number_is_near_and_never_above(value: float, digits: int) -> None:
    shown = float(format_number(value, digits=digits).replace(",", ""))
    assert abs(shown - value) <= 10.0 ** (1 - digits) * abs(value) + 1e-300
    if abs(value) >= 1e-4:
        assert shown <= value * (1 + 1e-12) + 1e-12 if value > 0 else shown <= value * (1 - 1e-12)


def test_missing_values_are_looked_for_once() -> None:
    describer = Describer(Features.read(np.array([[1.0], [np.nan]])))
    assert describer.has_missing(0)
    assert describer.has_missing(0)


def test_few_thresholds_are_shown_as_among_sorted_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 random columns, some of them empty, many with values between a threshold and its digits."""
    g = np.random.default_rng(0)
    n_digits = set()
    for _ in range(300):
        scale = 10.0 ** g.integers(-9, 18)
        values = scale * (1 + g.choice([1, 1e-3, 1e-5]) * g.normal(size=g.integers(1, 60)))
        values[g.random(len(values)) < g.choice([0, 0.3, 1])] = np.nan
        thresholds = np.unique(np.append(g.choice(values, 2), scale * (1 + 1e-4 * g.normal(size=3))))
        thresholds = thresholds[np.isfinite(thresholds)]
        few = shown_among(values, thresholds)
        n_digits |= {sum(map(str.isdigit, text)) for text in few}
        with monkeypatch.context() as patched:
            patched.setattr(words_of, "_FEW", 0)
            assert shown_among(values, thresholds) == few
    assert len(n_digits) > 5  # else no gap mattered


def shown_among(values: NDArray[np.float64], thresholds: NDArray[np.float64]) -> list[str]:
    gaps = words_of.gaps_among(values, thresholds)
    return [
        words_of._format_inside(one, gap, "", 4)
        for one, gap in zip(thresholds.tolist(), gaps, strict=True)
    ]


def test_categories_with_unusual_spaces_are_in_quotes() -> None:
    names = np.array(["Tensed" + 60 * " ", "Tensed", "a\nb"], object)[np.arange(9) % 3]
    features = Features.read({"resistance": names})
    levels = features.categories[0]
    words = {
        str(describe([Step(0, True, float(k), left=True, missing_left=False)], features))
        for k in range(len(levels))
    }
    assert words == {"resistance is Tensed", "resistance is 'Tensed '", "resistance is 'a b'"}
