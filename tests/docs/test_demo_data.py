"""The bundled demo data are small, readable, calibrated, and what their README says."""

from __future__ import annotations

import re
from importlib import resources

import numpy as np
import pytest

from epiloss.datasets import NUMERIC, DemoData, load_census_income

FILES = resources.files("epiloss.datasets")
TEXT = (
    "sex",
    "race",
    "citizenship",
    "marital_status",
    "household_role",
    "education",
    "class_of_worker",
    "industry",
    "occupation",
    "employment_status",
)


@pytest.fixture(scope="module")
def demo() -> DemoData:
    return load_census_income()


def recorded(figure: str) -> float:
    """Read the logistic model's figure from the README's table."""
    match = re.search(rf"^\| {figure} \| ([\d.,]+) \|", FILES.joinpath("README.md").read_text(), re.M)
    assert match is not None, f"the README must have a row '{figure}'"
    return float(match[1].replace(",", ""))


def test_file_is_under_one_megabyte() -> None:
    assert len(FILES.joinpath("census_income.csv.gz").read_bytes()) < 1_000_000


def test_file_header_has_neither_time_nor_name() -> None:
    header = FILES.joinpath("census_income.csv.gz").read_bytes()[:8]
    assert header[3:] == bytes(5)  # no flags, hence no name; a time of zero


def test_columns_are_numbers_or_trimmed_texts_of_one_length(demo: DemoData) -> None:
    assert set(demo.X) == {*NUMERIC, *TEXT}
    assert {len(column) for column in demo.X.values()} == {len(demo.y)} == {len(demo.scores)}
    assert len(demo.y) == recorded("rows")
    for name in NUMERIC:
        assert demo.X[name].dtype == np.float64
        assert np.all(demo.X[name] >= 0)
    for name in TEXT:
        assert all(text and text == text.strip() for text in set(demo.X[name]))


def test_rows_are_of_the_stated_population(demo: DemoData) -> None:
    assert demo.X["age"].min() >= 25
    assert demo.X["weeks_worked"].min() >= 1
    assert demo.X["weeks_worked"].max() <= 52


def test_labels_are_zero_or_one_and_scores_are_inside_the_unit_interval(demo: DemoData) -> None:
    assert set(demo.y) == {0, 1}
    assert np.all((demo.scores > 0) & (demo.scores < 1))


def test_mean_score_is_the_base_rate_within_four_standard_errors(demo: DemoData) -> None:
    residuals = demo.y - demo.scores
    assert abs(residuals.mean()) < 4 * residuals.std(ddof=1) / np.sqrt(len(residuals))


def test_figures_are_those_of_the_readme(demo: DemoData) -> None:
    brier = np.mean((demo.scores - demo.y) ** 2)
    log_loss = -np.mean(np.log(np.where(demo.y == 1, demo.scores, 1 - demo.scores)))
    assert demo.y.mean() == pytest.approx(recorded("base rate"), abs=5e-5)
    assert brier == pytest.approx(recorded("Brier score"), abs=5e-6)
    assert log_loss == pytest.approx(recorded("log-loss"), abs=5e-6)
