"""Which estimate leads, and that the ledger says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import epiloss
from epiloss import Audit
from epiloss.simulate import MultiClass, Sigmoid

SAMPLE = Sigmoid(perturbation="step").sample(400)
THREE = MultiClass().sample(400)
FEW = np.concatenate([np.flatnonzero(SAMPLE.y == label)[:20] for label in (0, 1)])


def audited(**options: Any) -> Audit:
    return epiloss.audit(SAMPLE.y, SAMPLE.scores, SAMPLE.X, **{"n_bins": 2, **options})


CASES: dict[str, tuple[Any, str, str]] = {
    "features": (lambda: audited(), "twin", "biased downwards by what they miss"),
    "cross-fitted": (lambda: audited(method="crossfit"), "crossfit", "no bins, evaluated on every row"),
    "classwise": (
        lambda: epiloss.audit(THREE.y, THREE.scores, THREE.X, task="classwise", n_bins=2),
        "twin",
        "conservative",
    ),
    "features and subgroups": (lambda: audited(subgroups=SAMPLE.X[:, 0] > 0), "twin", "conservative"),
    "subgroups alone": (
        lambda: epiloss.audit(SAMPLE.y, SAMPLE.scores, subgroups=SAMPLE.X[:, 0] > 0),
        "twin",
        "conservative",
    ),
    "subgroups by regions": (
        lambda: epiloss.audit(SAMPLE.y, SAMPLE.scores, subgroups=SAMPLE.X[:, 0] > 0, method="partition"),
        "partition",
        "subgroups are given",
    ),
    "blind": (lambda: epiloss.audit(SAMPLE.y, SAMPLE.scores), "partition", "without X"),
    "joint": (
        lambda: epiloss.audit(THREE.y, THREE.scores, THREE.X, task="joint", n_bins=2),
        "partition",
        "not on a vector of scores",
    ),
    "asked": (lambda: audited(method="partition"), "partition", "as requested; method='twin'"),
    "few rows": (
        lambda: epiloss.audit(SAMPLE.y[FEW], SAMPLE.scores[FEW], SAMPLE.X[FEW], n_bins=1),
        "partition",
        "at least 100 rows",
    ),
    "few clusters": (
        lambda: audited(clusters=np.arange(400) % 9, n_bins=1),
        "partition",
        "10 clusters",
    ),
}


@pytest.mark.parametrize(("result", "method", "why"), CASES.values(), ids=CASES.keys())
def test_the_result_says_which_bound_leads_and_why(result: Any, method: str, why: str) -> None:
    result = result()
    leader = {"twin": "twin learners (", "crossfit": "cross-fitted (", "partition": "by regions ("}
    assert result.method == method
    assert result.recommendation.startswith(f"Headline: {leader[method]}")
    assert why in result.recommendation
    assert "\n" not in result.recommendation
    assert result.recommendation in str(result).splitlines()
    assert result.to_dict()["recommendation"] == result.recommendation
    led_by = {
        "twin": result.twin_estimate,
        "crossfit": result.crossfit_bound,
        "partition": result.partition_bound,
    }
    assert result.grouping_loss == led_by[method]


def test_twin_learners_lead_unless_told_otherwise() -> None:
    default = audited()
    assert default.options["method"] == "twin"
    assert default.to_json() == audited(method="twin").to_json()


def test_the_partitions_terms_and_tables_are_the_same_whichever_bound_leads() -> None:
    default, partition = audited(), audited(method="partition")
    assert default.partition_bound == partition.grouping_loss
    for name in ("score", "calibration_loss", "plugin", "bias", "explained", "induced"):
        assert getattr(default, name) == getattr(partition, name)
    assert default.regions.to_dict() == partition.regions.to_dict()


def test_the_recalibrated_ledger_has_a_recommendation_of_its_own() -> None:
    result = audited(recalibrate="isotonic")
    assert result.recalibrated is not None
    assert result.recalibrated.method == "twin"
    assert result.recalibrated.recommendation == result.recommendation


@pytest.mark.parametrize("name", ["blind", "joint", "few rows", "few clusters"])
def test_where_nothing_without_bins_is_possible_the_regions_lead_without_an_error(
    name: str,
) -> None:
    result = CASES[name][0]()
    assert result.options["method"] == "twin"  # which was asked for
    assert result.method == "partition"
    assert result.twin_estimate is None


def test_known_subgroups_have_an_estimate_of_their_own() -> None:
    result = audited(subgroups={"side": SAMPLE.X[:, 0] > 0})
    side = result.subgroups["side"]
    assert result.method == side.method == "twin"
    assert side.twin_estimate is not None
    assert side.grouping_loss.value < result.grouping_loss.value
