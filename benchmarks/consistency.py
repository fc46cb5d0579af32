"""Whether an audit finds at least as much loss as a repair gains.

    python benchmarks/consistency.py
    python benchmarks/consistency.py --sets "digits, 512 random features" "Adult, logistic"
    python benchmarks/consistency.py --markdown docs/consistency.md

No repair can lower the Brier score by more than calibration loss and grouping loss together. Rows are
split in thirds: one trains the base model, one is audited and fits ``RegionRecalibrator``, and on the
last the repair is measured. A data set is inconsistent if the sum of the losses lies below the gain of
the repair by more than two standard errors of the difference. With several classes, the score is the
probability of the top label, and the label is whether it is correct.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import epiloss
import registry_data as registry
from epiloss._saving import write_text
from epiloss._typing import Floats
from epiloss.simulate import Sigmoid
from repair_data import (
    Part,
    Split,
    Table,
    UnavailableError,
    adult,
    boosting,
    compas,
    flights,
    logistic,
    simulation,
    with_base_model,
)
from reporting import Report, Verdict, parsed, set_parser

LOWEST_Z = -2.0
QUICK_ROWS = 600
RANDOM_FEATURES, HIDDEN = 512, 64
UNIT = 1e-4
PAGE = """# Does the audit find what a repair gains?

No repair can lower the Brier score by more than the calibration loss and the grouping loss together.
`python benchmarks/consistency.py --markdown docs/consistency.md` audits models on some rows, repairs
their scores with the same rows, and measures the gain of the repair on other rows.

- *sum* is the audit's calibration loss (CL) plus grouping loss (GL), and *crossfit* the same sum with
  the cross-fitted bound.
- *gain* is the improvement of the Brier score by the repair.
- *z* is the difference of sum and gain in standard errors. Below -2, the audit misses a loss that the
  repair finds.
"""

Cut = Callable[[int, Path], Split]


@dataclass(frozen=True)
class Line:
    """One base model: the losses of the audit, and the gain of the repair on fresh rows."""

    data: str
    rows: int
    columns: int
    calibration: float
    grouping: float
    found_stderr: float
    by_crossfit: float
    gain: float
    gain_stderr: float

    @property
    def found(self) -> float:
        """Calibration and grouping loss together."""
        return self.calibration + self.grouping

    @property
    def z(self) -> float:
        """The difference of the losses and the gain, in standard errors."""
        stderr = float(np.hypot(self.found_stderr, self.gain_stderr))
        return (self.found - self.gain) / stderr if stderr else 0.0

    @property
    def consistent(self) -> bool:
        """Whether the losses are not significantly below the gain."""
        return self.z >= LOWEST_Z

    def __str__(self) -> str:
        return (
            f"{self.data:34} {self.rows:>7,} {self.columns:>5} {self.calibration / UNIT:7.1f} "
            f"{self.grouping / UNIT:7.1f} {self.found / UNIT:7.1f} ±{self.found_stderr / UNIT:6.1f} "
            f"{self.by_crossfit / UNIT:8.1f} {self.gain / UNIT:7.1f} ±{self.gain_stderr / UNIT:6.1f} "
            f"{self.z:+6.2f}"
        )


HEADER = (
    f"{'losses x 1e-4':34} {'rows':>7} {'cols':>5} {'CL':>7} {'GL':>7} {'sum ± se':>15} {'crossfit':>8} "
    f"{'gain ± se':>15} {'z':>6}"
)


def top_label(
    load: Callable[[Path], Table],
    model: Callable[[Table, int], Any],
    features: Callable[[Any, Any], Any] | None = None,
) -> Cut:
    """Return a function that splits rows in thirds and reduces several classes to the top label.

    ``features`` computes the columns of the audit from the fitted model and the model's columns.
    """

    def split(seed: int, cache_folder: Path) -> Split:
        table = load(cache_folder)
        thirds = np.array_split(np.random.default_rng(seed).permutation(len(table.y)), 3)
        learn, *others = [table.X.iloc[rows].reset_index(drop=True) for rows in thirds]
        fitted = model(table, seed).fit(learn, table.y[thirds[0]])
        parts = [
            _top_label_part(fitted, X, table.y[rows], features)
            for X, rows in zip(others, thirds[1:], strict=True)
        ]
        return Split(parts[0], parts[1], () if features else table.categorical)

    return split


def _top_label_part(fitted: Any, X: Any, y: Any, features: Callable[[Any, Any], Any] | None) -> Part:
    p = fitted.predict_proba(X)
    hit = (fitted.classes_[p.argmax(axis=1)] == y).astype(np.int64)
    scores = np.asarray(p.max(axis=1), float)
    return Part(X if features is None else features(fitted, X), hit, scores)


def digits(folder: Path) -> Table:
    """Return scikit-learn's 1,797 digits of 8 x 8 pixels."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return Table(_frame(X / 16, "pixel"), y.astype(np.int64), ())


def few_components(n: int) -> Callable[[Table, int], Any]:
    """Return a logistic regression on ``n`` principal components."""

    def model(table: Table, seed: int) -> Any:
        from sklearn.decomposition import PCA
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        return make_pipeline(PCA(n, random_state=seed), LogisticRegression(max_iter=1_000))

    return model


def network(table: Table, seed: int) -> Any:
    """Return a network with one hidden layer, on numeric columns and indicators of categories."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline

    columns = logistic(table, seed)[0]
    model = MLPClassifier((HIDDEN,), early_stopping=True, random_state=seed)
    return make_pipeline(columns, model)


def random_features(fitted: Any, X: Any) -> Any:
    """Return rectified random projections of the pixels."""
    pixels = X.to_numpy()
    weights = np.random.default_rng(0).standard_normal((pixels.shape[1], RANDOM_FEATURES))
    return _frame(np.maximum(pixels @ weights, 0), "feature")


def hidden_layer(fitted: Any, X: Any) -> Any:
    """Return the activations of the network's hidden layer."""
    columns, model = fitted[0], fitted[-1]
    inputs = columns.transform(X)
    return _frame(np.maximum(inputs @ model.coefs_[0] + model.intercepts_[0], 0), "unit")


def _frame(columns: Any, name: str) -> Any:
    return pd.DataFrame(np.asarray(columns), columns=[f"{name} {j}" for j in range(columns.shape[1])])


def data_sets() -> Mapping[str, Cut]:
    """Return all base models by name."""
    tables: dict[str, Callable[[Path], Table]] = {
        "Adult": adult,
        "flights": flights,
        "COMPAS": compas,
        **registry.NEW_TABLES,
        "caravan": registry.caravan,
        "cells": registry.cells,
        "lending": registry.lending,
        "grants": registry.grants,
    }
    found = {f"{name}, logistic": with_base_model(load, logistic) for name, load in tables.items()}
    found["Adult, boosting"] = with_base_model(adult, boosting)
    found["Adult, network's hidden layer"] = top_label(adult, network, hidden_layer)
    several = {"cuts": registry.cuts, "leaves": registry.leaves, "occupations": registry.occupations}
    found |= {
        f"{name}, logistic, top label": top_label(load, logistic) for name, load in several.items()
    }
    found["digits, 64 pixels"] = top_label(digits, few_components(8))
    found["digits, 512 random features"] = top_label(digits, few_components(8), random_features)
    weak = top_label(digits, few_components(2), random_features)
    found["digits, 512 features, weak model"] = weak
    found["digits, network's hidden layer"] = top_label(digits, network, hidden_layer)
    return found


def measure(name: str, split: Split, seed: int) -> Line:
    """Audit and repair with the same rows, and measure the repair on fresh rows."""
    fit, fresh = split.repair, split.held_out
    audit, crossfit = (
        epiloss.audit(fit.y, fit.scores, fit.X, method=method, random_state=seed)
        for method in ("twin", "crossfit")
    )
    repair = epiloss.RegionRecalibrator(random_state=seed).fit(fit.y, fit.scores, fit.X)
    gain = row_gains(fresh, repair.predict(fresh.scores, fresh.X))
    return Line(
        data=name,
        rows=len(fit.y),
        columns=fit.X.shape[1],
        calibration=audit.calibration_loss.value,
        grouping=audit.grouping_loss.value,
        found_stderr=float(
            np.hypot(audit.calibration_loss.stderr or 0.0, audit.grouping_loss.stderr or 0.0)
        ),
        by_crossfit=crossfit.calibration_loss.value + crossfit.grouping_loss.value,
        gain=float(gain.mean()),
        gain_stderr=float(gain.std(ddof=1) / np.sqrt(len(gain))),
    )


def row_gains(fresh: Part, repaired: Floats) -> Floats:
    """Return how much the repair lowers the Brier score of each row."""
    return np.asarray((fresh.scores - fresh.y) ** 2 - (repaired - fresh.y) ** 2, float)


def judge(lines: Sequence[Line]) -> Verdict:
    """Return the verdict, with the data sets that are inconsistent."""
    failed = [f"{line.data} {line.z:+.1f}" for line in lines if not line.consistent]
    target = "the audit finds what the repair gains, within 2 standard errors"
    return Verdict.on_all(target, failed, len(lines))


def run(known: Mapping[str, Cut], options: argparse.Namespace, report: Report) -> list[Line]:
    """Measure each base model, print its line and save the lines so far."""
    lines: list[Line] = []
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for name in options.sets or known:
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                split = known[name](options.seed, options.cache)
            except UnavailableError as error:
                report.print(f"{name} is left out: {error}")
                continue
            lines.append(measure(name, split, options.seed))
            report.print(str(lines[-1]))
            save(lines, options.output)
    return lines


def save(lines: Sequence[Line], file: Path) -> None:
    """Write everything as JSON."""
    plain = [asdict(line) | {"z": line.z, "consistent": line.consistent} for line in lines]
    write_text(file, json.dumps({"lines": plain}, indent=2, allow_nan=False) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every base model, print the table and the verdict, and save them."""
    options = _options(arguments)
    options.output.parent.mkdir(parents=True, exist_ok=True)  # fails before the work, not after
    tiny = simulation("quick", Sigmoid(perturbation="step"), QUICK_ROWS)
    known = {tiny.name: tiny.split} if options.quick else data_sets()
    report = Report()
    report.print(HEADER)
    lines = run(known, options, report)
    report.print(f"\n{judge(lines)}")
    if options.markdown is not None:
        report.save(options.markdown, PAGE)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    description = "Compare the losses of an audit with the gain of a repair."
    parser = set_parser(description, list(data_sets()), "benchmarks/output/consistency.json")
    parser.add_argument("--seed", type=int, default=0, help="seed of splits, audits and repairs")
    options = parsed(parser, arguments)
    if options.seed < 0:
        parser.error(f"--seed must be at least 0, got {options.seed}")
    return options


if __name__ == "__main__":
    main()
