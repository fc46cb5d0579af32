"""Results of every kind, told by their digests: what ``test_determinism`` runs in processes of its own.

python tests/determinism_scenarios.py FOLDER [N_JOBS]
"""

from __future__ import annotations

import hashlib
import json
import locale
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import epiloss
from epiloss.simulate import MultiClass, Sigmoid

N = 800
WIDE = 420  # columns: more than twice the components that they are brought down to
FEW = slice(0, 300)  # rows of so many columns


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def frame(X: Any) -> pd.DataFrame:
    """Return features with texts and missing values among them."""
    g = np.random.default_rng(1)
    data = pd.DataFrame(np.asarray(X), columns=["age", "dose"])
    data.loc[g.random(len(data)) < 0.1, "dose"] = np.nan
    data["city"] = np.array(["Oslo", "Rom", "Wien", None])[g.integers(4, size=len(data))]
    return data


def write_files(folder: Path, n: int = 12_000) -> None:
    """Write rows that exceed the memory they may take, once in two files and once in one."""
    import pyarrow as pa
    from pyarrow import parquet

    sample = Sigmoid(perturbation="step").sample(n)
    table = pa.table({**frame(sample.X), "score": sample.scores, "label": sample.y})
    for name in ("two", "one"):
        (folder / name).mkdir()
    parquet.write_table(table.slice(0, 4_000), folder / "two" / "a.parquet", row_group_size=900)
    parquet.write_table(table.slice(4_000), folder / "two" / "b.parquet", row_group_size=5_000)
    parquet.write_table(table, folder / "one" / "all.parquet")


def scenarios(folder: Path, n_jobs: int | None) -> dict[str, str]:
    """Return the digest of each result."""
    g = np.random.default_rng(0)
    sample = Sigmoid(perturbation="step").sample(N)
    y, s, X = sample.y, np.asarray(sample.scores), np.asarray(sample.X)
    data = frame(X)
    wide = np.column_stack([X, g.normal(size=(N, WIDE - 2))])[FEW]
    wide_repair = epiloss.RegionRecalibrator(n_jobs=n_jobs).fit(y[FEW], s[FEW], wide)
    weights, clusters = g.integers(1, 5, N) / 2, g.integers(0, 200, N)
    classes = MultiClass(n_classes=3).sample(8 * N)  # k-means adds up chunks of 256 rows by threads
    many = (classes.y, classes.scores, classes.X)
    jobs: dict[str, Any] = {"n_jobs": n_jobs}
    options: dict[str, Any] = {"n_bins": 6, "sample_weight": weights, "clusters": clusters, **jobs}
    named = epiloss.audit(y, s, data, rule="log", strategy="quantile", recalibrate="sigmoid", **options)
    models = {"given": s, "squared": s**2}
    compared = epiloss.compare(y, models, X, recalibrate="isotonic", method="partition", **jobs)
    plain = epiloss.audit(y, s, X, **jobs)
    repair = plain.repair()
    half = slice(0, N // 2), slice(N // 2, N)
    columns: dict[str, Any] = {"memory": "14MB", **jobs}
    results: dict[str, Any] = {
        "texts, weights, clusters": named.to_json(),
        "page": named.to_html(date="2024-02-29"),
        "wide features": epiloss.audit(y[FEW], s[FEW], wide, **jobs),
        "wide repair": wide_repair.predict(s[FEW], wide).tolist(),
        "repeats": epiloss.audit(y, s, data, repeats=3, adjust="max", method="partition", **jobs),
        "subgroups": epiloss.audit(y, s, subgroups=data["city"], curve="lowess", **jobs),
        "features and subgroups": epiloss.audit(
            y, s, X, subgroups=data[["city"]], method="partition", **jobs
        ),
        "clusters of features": epiloss.audit(*many, partition="kmeans", method="partition", **jobs),
        "whole score vectors": epiloss.audit(*many, task="joint", **jobs),
        "each class": epiloss.audit(*(one[:N] for one in many), task="classwise", **jobs),
        "several labels a row": epiloss.audit(
            np.column_stack([y, g.permutation(y)]), s, X, method="partition", **jobs
        ),
        "comparison": compared.to_json(),
        "comparison's page": compared.to_html(date="2024-02-29"),
        "drift": epiloss.drift(*((y[part], s[part], X[part]) for part in half), **jobs),
        "repair": [repair.to_json(), repair.scores.tolist()],
        "regret": epiloss.regret(plain).to_json(),
        "files": epiloss.audit_table(folder / "two", label="label", score="score", **columns),
    }
    one_file = epiloss.audit_table(folder / "one", label="label", score="score", **columns)
    assert one_file.to_json() == results["files"].to_json(), (
        "the result depends on the division of rows into files"
    )
    return {
        name: digest(one.to_json() if hasattr(one, "to_json") else json.dumps(one))
        for name, one in results.items()
    }


if __name__ == "__main__":
    locale.setlocale(locale.LC_ALL, "")  # as programs do that speak their user's language
    jobs_asked = int(sys.argv[2]) if len(sys.argv) > 2 else None
    print(json.dumps(scenarios(Path(sys.argv[1]), jobs_asked)))
