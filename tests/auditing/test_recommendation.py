"""Which lower bound leads, and that the ledger says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import epiloss
from epiloss import Audit, OptionError
from epiloss.simulate import MultiClass, Sigmoid

SAMPLE = Sigmoid(perturbation="step").sample(400)
THREE = MultiClass().sample(400)
FEW = np.concatenate([np.flatnonzero(SAMPLE.y == label)[:20] for label in (0, 1)])


def audited(**options: Any) -> Audit:
    return epiloss.audit(SAMPLE.y, SAMPLE.scores, SAMPLE.X, **{"n_bins": 2, **options})


CASES: dict[str, tuple[Any, str, str]] = {
    "features": (lambda: audited(), "crossfit", "needs no bins and every row tests it"),
    "classwise": (
        lambda: epiloss.audit(THREE.y, THREE.scores, THREE.X, task="classwise", n_bins=2),
        "crossfit",
        "needs no bins",
    ),
    "subgroups": (lambda: audited(subgroups=SAMPLE.X[:, 0] > 0), "partition", "groups are given"),
    "groups alone": (
        lambda: epiloss.audit(SAMPLE.y, SAMPLE.scores, subgroups=SAMPLE.X[:, 0] > 0),
        "partition",
        "groups are given",
    ),
    "blind": (lambda: epiloss.audit(SAMPLE.y, SAMPLE.scores), "partition", "without X"),
    "joint": (
        lambda: epiloss.audit(THREE.y, THREE.scores, THREE.X, task="joint", n_bins=2),
        "partition",
        "not on a whole vector",
    ),
    "asked": (lambda: audited(method="partition"), "partition", "as asked; method='auto'"),
    "few rows": (
        lambda: epiloss.audit(SAMPLE.y[FEW], SAMPLE.scores[FEW], SAMPLE.X[FEW], n_bins=1),
        "partition",
        "100 evaluated rows",
    ),
    "few clusters": (
        lambda: audited(clusters=np.arange(400) % 9, n_bins=1),
        "partition",
        "in 10 clusters",
    ),
}


@pytest.mark.parametrize(("result", "method", "why"), CASES.values(), ids=CASES.keys())
def test_the_result_says_which_bound_leads_and_why(result: Any, method: str, why: str) -> None:
    result = result()
    leader = {"crossfit": "the cross-fitted bound leads", "partition": "the bound by regions leads"}
    assert result.method == method
    assert result.recommendation.startswith(leader[method])
    assert why in result.recommendation
    assert "\n" not in result.recommendation
    assert result.recommendation in str(result).splitlines()
    assert result.to_dict()["recommendation"] == result.recommendation
    led_by = result.crossfit_bound if method == "crossfit" else result.partition_bound
    assert result.grouping_loss == led_by


def test_the_bound_without_bins_leads_unless_told_otherwise() -> None:
    default = audited()
    assert default.options["method"] == "auto"
    assert default.to_json() == audited(method="crossfit").to_json()
    assert default.grouping_loss == audited(method="crossfit").grouping_loss


def test_the_partitions_terms_and_tables_are_the_same_whichever_bound_leads() -> None:
    auto, partition = audited(), audited(method="partition")
    assert auto.partition_bound == partition.grouping_loss
    for name in ("score", "calibration_loss", "plugin", "bias", "explained", "induced"):
        assert getattr(auto, name) == getattr(partition, name)
    assert auto.regions.to_dict() == partition.regions.to_dict()


def test_the_recalibrated_ledger_has_a_recommendation_of_its_own() -> None:
    result = audited(recalibrate="isotonic")
    assert result.recalibrated is not None
    assert result.recalibrated.method == "crossfit"
    assert result.recalibrated.recommendation == result.recommendation


@pytest.mark.parametrize("name", ["groups", "blind", "joint", "few rows"])
def test_the_cross_fitted_bound_is_refused_where_auto_has_none(name: str) -> None:
    data: dict[str, Any] = {
        "subgroups": (SAMPLE.y, SAMPLE.scores, SAMPLE.X),
        "blind": (SAMPLE.y, SAMPLE.scores),
        "joint": (THREE.y, THREE.scores, THREE.X),
        "few rows": (SAMPLE.y[FEW], SAMPLE.scores[FEW], SAMPLE.X[FEW]),
    }
    options: dict[str, Any] = {"subgroups": {"subgroups": SAMPLE.y}, "joint": {"task": "joint"}}
    with pytest.raises(OptionError, match="crossfit"):
        epiloss.audit(*data[name], n_bins=1, method="crossfit", **options.get(name, {}))
