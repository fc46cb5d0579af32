"""The one call: its ledger adds up, it takes what users have, and only what matters changes it."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.isotonic import IsotonicRegression
from sklearn.tree import DecisionTreeClassifier

import epiloss
from audit_laws import laws, mostly_audited
from epiloss import Audit, Brier, DataError, LogLoss, OptionError, ScoringRule, audit
from epiloss.input.problem import RegionSource

TOTALS = (
    "score",
    "calibration_loss",
    "grouping_loss",
    "remainder",
    "plugin",
    "bias",
    "explained",
    "induced",
)
FEW = 12  # examples of a law


def rows(n: int, seed: int = 0, d: int = 3) -> tuple[Any, Any, Any]:
    """Draw labels that depend on the first feature too; all numbers are exact in float16."""
    generator = np.random.default_rng(seed)
    X = generator.integers(-64, 64, (n, d)) / 32
    s = (1 + 2 * generator.integers(0, 128, n)) / 256
    tilt = 0.2 * np.sign(X[:, 0]) if d else 0.0
    y = (generator.random(n) < np.clip(s + tilt, 0, 1)).astype(int)
    y[:2] = [0, 1]
    return y, s, X


def totals(result: Audit) -> NDArray[np.float64]:
    return np.array([float(getattr(result, name)) for name in TOTALS])


def assert_adds_up(result: Audit) -> None:
    """Check the ledger, and that every rendering of the result is sound."""
    parts = result.calibration_loss.value + result.grouping_loss.value + result.remainder.value
    if math.isfinite(result.score.value):
        assert abs(result.score.value - parts) < 1e-12
        assert np.isfinite(totals(result)).all()
    else:
        assert result.score.value == result.calibration_loss.value == math.inf
        assert math.isfinite(result.grouping_loss.value)
        assert math.isfinite(result.remainder.value)
    assert abs(result.explained - (result.plugin - result.bias)) < 1e-12
    if result.method == "partition":
        assert abs(result.grouping_loss.value - (result.explained - result.induced)) < 1e-12
    assert json.loads(result.to_json())["schema"] == 2
    assert "nan" not in str(result)


Y, S, X = rows(600)
G = np.where(X[:, 0] > 0, "right", "left")


@pytest.fixture(scope="module")
def plain() -> Audit:
    return audit(Y, S, X, n_bins=4, method="partition")


@pytest.fixture(scope="module")
def led_without_bins() -> Audit:
    return audit(Y, S, X, n_bins=4)


@pytest.fixture(scope="module")
def grouped() -> Audit:
    return audit(Y, S, subgroups=G, n_bins=4)


# the result


def test_the_ledger_adds_up_and_the_regions_are_found(plain: Audit, led_without_bins: Audit) -> None:
    assert_adds_up(plain)
    assert_adds_up(led_without_bins)
    assert plain.task == "binary"
    assert plain.rule == "brier"
    assert plain.n_samples == plain.n_evaluated == 600
    assert plain.grouping_loss.value > 0
    assert plain.score.value == pytest.approx(np.mean((S - Y) ** 2), abs=1e-11)


def test_the_log_score_is_the_mean_log_loss() -> None:
    expected = -np.mean(np.where(Y == 1, np.log(S), np.log1p(-S)))
    assert audit(Y, S, X, rule="log").score.value == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(
    "name", ["score", "calibration_loss", "grouping_loss", "plugin", "bias", "induced"]
)
@pytest.mark.parametrize("task", ["binary", "classwise"])
def test_level_sets_weighted_by_their_share_add_up_to_the_total(name: str, task: str) -> None:
    result = audit(Y, S, X, task=task, n_bins=4, method="partition")
    total = float(getattr(result, name))
    assert result.level_sets["share"] @ result.level_sets[name] == pytest.approx(total, abs=1e-12)


def test_regions_weighted_by_their_share_add_up_to_the_plugin(grouped: Audit) -> None:
    assert grouped.regions["share"] @ grouped.regions["plugin"] == pytest.approx(
        grouped.plugin, abs=1e-12
    )
    assert grouped.regions["n"].sum() == grouped.level_sets["n"].sum() == 600


def test_tables_become_pandas_frames_with_the_same_columns(plain: Audit) -> None:
    for table in (plain.level_sets, plain.regions):
        frame = table.to_pandas()
        assert list(frame.columns) == list(table)
        assert len(frame) == len(table)
        for name in table:
            np.testing.assert_array_equal(frame[name].to_numpy(), table[name])


def test_the_result_is_frozen(plain: Audit) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.bias = 0.0  # type: ignore[misc]


def test_json_holds_the_same_numbers_and_lands_whole_in_its_file(plain: Audit, tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    text = plain.to_json(path)
    assert json.loads(path.read_text()) == json.loads(text) == plain.to_dict()
    assert json.loads(text)["grouping_loss"]["value"] == plain.grouping_loss.value
    assert [entry.name for entry in tmp_path.iterdir()] == ["audit.json"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    plain: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.json"
    path.write_text("old")

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("epiloss._saving.os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        plain.to_json(path)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_the_choice_of_task_is_told_in_the_result(plain: Audit) -> None:
    assert any("'binary'" in remark for remark in plain.remarks)
    assert all(remark in str(plain) for remark in plain.remarks)


def test_without_features_the_bound_is_zero_and_this_is_told() -> None:
    result = audit(Y, S)
    assert_adds_up(result)
    assert result.grouping_loss.value == pytest.approx(0, abs=1e-15)
    assert any("without X or subgroups" in remark for remark in result.remarks)


def test_the_grouping_loss_is_never_bounded_by_zero_where_every_level_set_holds_one_row() -> None:
    result = audit([0, 1, 1, 0], [0.1, 0.3, 0.6, 0.9])
    assert len(result.level_sets) == 4
    assert result.bounds.grouping_loss_high != 0


# what does not matter


@pytest.mark.parametrize("rule", ["brier", "log"])
@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(rule: str, n_jobs: int) -> None:
    options: dict[str, Any] = {"rule": rule, "n_bins": 4, "recalibrate": "isotonic", "repeats": 2}
    options["method"] = "partition"
    once = audit(Y, S, X, random_state=7, **options)
    assert audit(Y, S, X, random_state=7, n_jobs=n_jobs, **options).to_json() == once.to_json()


def test_the_same_seed_gives_the_same_bits_without_bins_too() -> None:
    options: dict[str, Any] = {"n_bins": 4, "recalibrate": "isotonic", "random_state": 7}
    once = audit(Y, S, X, **options)
    assert audit(Y, S, X, n_jobs=2, **options).to_json() == once.to_json()


def test_another_seed_gives_another_split_but_the_same_score(plain: Audit) -> None:
    other = audit(Y, S, X, n_bins=4, method="partition", random_state=1)
    assert other.plugin != plain.plugin
    assert other.score.value == plain.score.value


def test_a_generator_is_a_seed_and_moves_on() -> None:
    generator = np.random.default_rng(3)
    first, second = (audit(Y, S, X, n_bins=4, random_state=generator) for _ in range(2))
    again = audit(Y, S, X, n_bins=4, random_state=np.random.default_rng(3))
    assert first.plugin == again.plugin != second.plugin


def test_the_state_of_numpys_global_generator_is_left_alone() -> None:
    before: Any = np.random.get_state()  # noqa: NPY002  # the global state is what is watched
    audit(Y, S, X, n_bins=4, random_state=None, partition="kmeans")
    after: Any = np.random.get_state()  # noqa: NPY002
    np.testing.assert_array_equal(before[1], after[1])


def test_inputs_are_never_written_to() -> None:
    given = [Y.copy(), S.copy(), np.asfortranarray(X), S + 1]
    kept = [array.copy() for array in given]
    for array in given:
        array.flags.writeable = False
    for partition in ("tree", "stump", "kmeans"):
        audit(
            given[0],
            given[1],
            given[2],
            sample_weight=given[3],
            partition=partition,
            method="crossfit" if partition == "tree" else "partition",
            recalibrate="sigmoid",
        )
    for array, copy in zip(given, kept, strict=True):
        np.testing.assert_array_equal(array, copy)


FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
MAKES: dict[str, tuple[Any, Any, Any]] = {
    "lists": (Y.tolist(), S.tolist(), X.tolist()),
    "tuples": (tuple(Y), tuple(S), tuple(map(tuple, X))),
    "float32": (Y.astype("f4"), S.astype("f4"), X.astype("f4")),
    "float16": (Y.astype("f2"), S.astype("f2"), X.astype("f2")),
    "big endian": (Y.astype(">i4"), S.astype(">f8"), X.astype(">f8")),
    "fortran": (Y, np.asfortranarray(S[:, None]), np.asfortranarray(X)),
    "strided": (np.repeat(Y, 2)[::2], np.repeat(S, 2)[::2], np.repeat(X, 2, axis=0)[::2]),
    "object": (Y.astype(object), S.astype(object), X.astype(object)),
    "pandas": (pd.Series(Y, index=Y), pd.Series(S), FRAME),
    "pandas nullable": (
        pd.Series(Y, dtype="Int64"),
        pd.Series(S, dtype="Float64"),
        FRAME.astype("Float32"),
    ),
    "pandas columns": (pd.DataFrame({"y": Y}), pd.DataFrame({"s": S}), FRAME),
    "polars": (pl.Series(Y), pl.Series(S), pl.DataFrame(X)),
    "pyarrow": (pa.array(Y), pa.array(S), pa.Table.from_pandas(FRAME)),
    "pyarrow chunks": (pa.chunked_array([Y[:9], Y[9:]]), pa.chunked_array([S[:9], S[9:]]), FRAME),
    "mapping": (Y, S, {"a": X[:, 0], "b": X[:, 1].tolist(), "c": pl.Series(X[:, 2])}),
    "two columns": (Y, np.column_stack([1 - S, S]), X),
    "two pandas columns": (Y, pd.DataFrame({"no": 1 - S, "yes": S}), X),
    "two polars columns": (Y, pl.DataFrame({"no": 1 - S, "yes": S}), X),
    "one-hot": (np.eye(2)[Y], np.column_stack([1 - S, S]), X),
    "booleans": (Y == 1, S, X),
    "signs": (2 * Y - 1, S, X),
    "ones and twos": (Y + 1, S, X),
    "text": (np.where(Y == 1, "yes", "no"), S, X),
}


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES.keys())
def test_every_make_of_input_gives_the_same_bits(make: tuple[Any, Any, Any], plain: Audit) -> None:
    pos_label = "yes" if isinstance(make[0], np.ndarray) and make[0].dtype.kind == "U" else None
    result = audit(*make, n_bins=4, method="partition", pos_label=pos_label)
    np.testing.assert_array_equal(totals(result), totals(plain))
    names = [name for name in plain.regions if name != "rule"]  # which names the columns as they came
    for name in names:
        np.testing.assert_array_equal(result.regions[name], plain.regions[name])


@pytest.mark.parametrize("name", ["float16", "polars", "two columns", "text"])
def test_every_make_of_input_gives_the_same_bits_without_bins(
    name: str, led_without_bins: Audit
) -> None:
    pos_label = "yes" if name == "text" else None
    result = audit(*MAKES[name], n_bins=4, pos_label=pos_label)
    np.testing.assert_array_equal(totals(result), totals(led_without_bins))


def test_the_scale_of_the_weights_and_equal_weights_do_not_matter(plain: Audit) -> None:
    np.testing.assert_allclose(
        totals(audit(Y, S, X, n_bins=4, method="partition", sample_weight=np.full(600, 3.0))),
        totals(plain),
        atol=1e-10,
    )


def test_the_order_of_named_columns_follows_classes() -> None:
    labels = np.where(Y == 1, "yes", "no")
    straight = audit(labels, np.column_stack([1 - S, S]), subgroups=G, classes=["no", "yes"])
    turned = audit(labels, np.column_stack([S, 1 - S]), subgroups=G, classes=["yes", "no"])
    np.testing.assert_allclose(totals(turned), totals(straight), atol=1e-12)


@pytest.mark.parametrize("task", ["top-label", "classwise", "joint"])
def test_the_positive_class_does_not_matter_to_tasks_of_all_classes(task: str) -> None:
    scores = np.column_stack([1 - S, S])
    by_default, chosen = (
        audit(Y, scores, subgroups=G, task=task, n_bins=4, pos_label=pos_label)
        for pos_label in (None, 0)
    )
    np.testing.assert_allclose(totals(chosen), totals(by_default), atol=1e-12)


@laws(FEW)
@given(st.integers(0, 2**32 - 1), st.integers(2, 120), st.sampled_from(["brier", "log"]))
def test_the_order_of_rows_does_not_matter_with_groups_and_a_known_curve(
    seed: int, n: int, rule: str
) -> None:
    y, s, X = rows(n, seed)
    order = np.random.default_rng(seed).permutation(n)
    groups = X[:, 0] > 0
    results = [
        audit(y[i], s[i], subgroups=groups[i], rule=rule, n_bins=5, curve=lambda score: score)
        for i in (np.arange(n), order)
    ]
    np.testing.assert_allclose(totals(results[0]), totals(results[1]), atol=1e-12)


@laws(FEW)
@given(st.integers(0, 2**32 - 1), st.integers(2, 120), st.sampled_from(["brier", "log"]))
def test_the_order_of_rows_does_not_matter_with_groups(seed: int, n: int, rule: str) -> None:
    y, s, X = rows(n, seed)
    order = np.random.default_rng(seed).permutation(n)
    groups = X[:, 0] > 0
    results = [
        audit(y[i], s[i], subgroups=groups[i], rule=rule, n_bins=5) for i in (np.arange(n), order)
    ]
    np.testing.assert_allclose(totals(results[0]), totals(results[1]), atol=1e-12)


@laws(FEW)
@given(st.integers(0, 2**32 - 1), st.integers(2, 120))
def test_the_brier_losses_do_not_know_which_class_is_positive(seed: int, n: int) -> None:
    y, s, X = rows(n, seed)  # odd multiples of 1/256, so never on the edges of eight bins
    # a known curve: those fitted on random halves see other halves when the rows turn round
    options: dict[str, Any] = {"subgroups": X[:, 0] > 0, "n_bins": 8, "curve": lambda score: score}
    options |= {"method": "partition"}  # twins deal the rows in another order then
    straight, turned = audit(y, s, **options), audit(1 - y, 1 - s, **options)
    np.testing.assert_allclose(totals(turned), totals(straight), atol=1e-9)


@pytest.mark.slow
@laws(FEW)
@given(st.integers(0, 2**32 - 1), st.integers(60, 120))
def test_integer_weights_are_duplicated_rows_in_score_rates_and_plugins(seed: int, n: int) -> None:
    y, s, X = rows(n, seed)
    weights = np.random.default_rng(seed).integers(1, 4, n)
    again = np.repeat(np.arange(n), weights)
    groups = X[:, 0] > 0
    weighted = audit(y, s, subgroups=groups, sample_weight=weights, n_bins=2)
    repeated = audit(y[again], s[again], subgroups=groups[again], n_bins=2)
    assert weighted.score.value == pytest.approx(repeated.score.value, abs=1e-10)
    assert weighted.plugin == pytest.approx(repeated.plugin, abs=1e-10)
    for name in ("share", "score_mean", "label_mean", "plugin"):
        np.testing.assert_allclose(weighted.level_sets[name], repeated.level_sets[name], atol=1e-10)


@mostly_audited(
    FEW,
    st.integers(0, 2**32 - 1),
    st.integers(2, 200),
    st.sampled_from(["tree", "stump", "kmeans"]),
    least=0.6,
)
def test_a_constant_feature_changes_nothing_that_regions_do_not_enter(
    seed: int, n: int, partition: str
) -> bool:
    # trees draw the order in which they try features, so equally good splits may fall differently
    y, s, X = rows(n, seed)
    results: list[Any] = []
    for features in (X, np.column_stack([X, np.ones(n)])):
        try:
            results.append(audit(y, s, features, n_bins=3, partition=partition, method="partition"))
        except DataError as error:  # too few rows to split, with and without the feature
            results.append(str(error))
    if isinstance(results[0], str):
        assert results[0] == results[1]
        return False
    for name in ("score", "calibration_loss", "induced"):
        assert getattr(results[0], name) == getattr(results[1], name)
    if partition == "kmeans":
        np.testing.assert_allclose(totals(results[0]), totals(results[1]), atol=1e-12)
    return True


# tasks, rules and options


@pytest.fixture(scope="module")
def ten() -> tuple[Any, Any]:
    generator = np.random.default_rng(0)
    P = generator.dirichlet(np.full(10, 0.5), 600)
    c = np.array([generator.choice(10, p=p) for p in P])
    c[c == 9] = 0
    c[5] = 9  # a class with one row
    return c, P


@pytest.mark.parametrize("rule", ["brier", "log"])
@pytest.mark.parametrize("task", [None, "top-label", "classwise", "joint"])
@pytest.mark.parametrize("with_groups", [False, True])
def test_ten_classes_some_rare_add_up_in_every_task(
    ten: tuple[Any, Any], rule: str, task: str | None, with_groups: bool
) -> None:
    c, P = ten
    data: dict[str, Any] = {"subgroups": G} if with_groups else {"X": X}
    method = "crossfit" if rule == "brier" else "partition"
    result = audit(c, P, task=task, rule=rule, n_bins=5, method=method, **data)
    assert result.task == (task or "top-label")
    assert_adds_up(result)


@pytest.mark.parametrize("task", ["classwise", "joint"])
def test_the_score_of_all_classes_is_the_multiclass_score(ten: tuple[Any, Any], task: str) -> None:
    c, P = ten
    brier = np.sum((P - np.eye(10)[c]) ** 2, axis=1).mean()
    log = -np.log(P[np.arange(len(c)), c]).mean()
    assert audit(c, P, task=task, n_bins=5).score.value == pytest.approx(brier, abs=1e-9)
    assert audit(c, P, task=task, n_bins=5, rule="log").score.value == pytest.approx(log, abs=1e-9)


def test_rules_are_names_or_objects(plain: Audit) -> None:
    assert audit(Y, S, X, n_bins=4, rule=Brier(), method="partition").to_json() == plain.to_json()
    assert audit(Y, S, rule=LogLoss()).to_json() == audit(Y, S, rule="log").to_json()
    spherical = ScoringRule.from_entropy(lambda p: 1 - np.sqrt(p**2 + (1 - p) ** 2), name="spherical")
    result = audit(Y, S, X, n_bins=4, rule=spherical)
    assert_adds_up(result)
    assert result.rule == "spherical"


def test_bins_are_a_number_or_edges() -> None:
    by_number = audit(Y, S, X, n_bins=4, method="partition")
    makes: list[Any] = [[0, 0.25, 0.5, 0.75, 1], (0, 0.25, 0.5, 0.75, 1), np.linspace(0, 1, 5)]
    for edges in [*makes, np.int64(4)]:
        by_edges = audit(Y, S, X, n_bins=edges, method="partition")
        np.testing.assert_array_equal(totals(by_edges), totals(by_number))
    assert len(audit(Y, S, X, n_bins=5, strategy="quantile").level_sets) == 5


def test_quantile_bins_keep_certain_scores_apart() -> None:
    scores = np.where(S > 0.5, 1.0, 0.0)
    assert len(audit(Y, scores, subgroups=G, strategy="quantile").level_sets) == 2


class BySign:
    """A partition that its user wrote, with ``fit`` returning nothing."""

    def fit(self, X: Any, y: Any) -> None:
        """Learn nothing."""

    def predict(self, X: Any) -> Any:
        """Return names of regions."""
        return np.where(X[:, 0] > 0, "right", "left")


@pytest.mark.parametrize(
    "partition", ["tree", "stump", "kmeans", DecisionTreeClassifier(max_depth=2), KMeans(3), BySign()]
)
def test_every_partition_adds_up_and_splits(partition: Any) -> None:
    result = audit(Y, S, X, n_bins=4, partition=partition, method="partition")
    assert_adds_up(result)
    assert len(result.regions) > 2 * len(result.level_sets)


def test_groups_are_evaluated_on_every_row_without_a_split(grouped: Audit) -> None:
    assert_adds_up(grouped)
    assert grouped.n_evaluated == grouped.n_samples == 600
    assert set(grouped.regions["subgroup"]) == {"left", "right"}
    assert grouped.grouping_loss.value > 0.01


def test_subgroups_beside_features_are_audited_each_by_itself(
    led_without_bins: Audit, grouped: Audit
) -> None:
    both = audit(Y, S, X, n_bins=4, subgroups={"side": G, "flag": X[:, 1] > 0})
    np.testing.assert_array_equal(totals(both), totals(led_without_bins))
    assert both.region_source is RegionSource.LEARNED
    assert list(both.subgroups) == ["side", "flag"]
    by_side = both.subgroups["side"]
    assert by_side.region_source is RegionSource.SUBGROUPS
    np.testing.assert_array_equal(totals(by_side), totals(grouped))
    assert by_side.regions.to_dict() == grouped.regions.to_dict()
    assert set(both.subgroups["flag"].regions["subgroup"]) == {"False", "True"}


def test_a_region_that_names_a_group_counts_the_rows_of_that_group_only() -> None:
    groups = np.array(["big"] * 38 + ["one", "two"])
    regions = audit(Y[:40], S[:40], subgroups=groups, n_bins=1).regions
    for name, n in zip(regions["subgroup"], regions["n"], strict=True):
        assert name not in groups or n == (groups == name).sum()


class Shrink:
    """A recalibration that its user wrote."""

    def fit(self, scores: Any, labels: Any) -> None:
        """Keep the base rate."""
        self.rate = labels.mean()

    def predict(self, scores: Any) -> Any:
        """Move every score halfway to the base rate."""
        return (scores + self.rate) / 2


@pytest.mark.parametrize(
    "recalibrate", ["isotonic", "sigmoid", IsotonicRegression(out_of_bounds="clip"), Shrink()]
)
@pytest.mark.parametrize("data", [{}, {"X": X}, {"subgroups": G}], ids=["blind", "X", "groups"])
def test_the_recalibrated_ledger_adds_up_and_leaves_the_first_alone(
    recalibrate: Any, data: dict[str, Any]
) -> None:
    options: dict[str, Any] = {
        "n_bins": 4,
        "method": "crossfit" if recalibrate == "sigmoid" else "partition",
    }
    result = audit(Y, S, **data, recalibrate=recalibrate, **options)
    assert result.recalibrated is not None
    assert_adds_up(result.recalibrated)
    assert result.recalibrated.n_evaluated == 600
    np.testing.assert_array_equal(totals(result), totals(audit(Y, S, **data, **options)))


def test_recalibration_cures_calibration_loss() -> None:
    y, s, _ = rows(4000, d=0)
    result = audit(y, s**3, recalibrate="isotonic")
    assert result.recalibrated is not None
    assert result.calibration_loss.value > 0.02
    assert abs(result.recalibrated.calibration_loss.value) < 0.005


class Broken:
    """A recalibration whose answers are no probabilities."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def fit(self, scores: Any, labels: Any) -> None:
        """Learn nothing."""

    def predict(self, scores: Any) -> Any:
        """Return what was asked for."""
        return self.answer(scores)


@pytest.mark.parametrize(
    "answer",
    [lambda s: s * np.nan, lambda s: s[:3], lambda s: 10 * s - 5],
    ids=["nan", "too few", "logits"],
)
def test_a_recalibration_that_gives_no_probabilities_is_refused(answer: Any) -> None:
    with pytest.raises((DataError, OptionError), match="recalib"):
        audit(Y, S, X, n_bins=4, recalibrate=Broken(answer))


BAD_OPTIONS: list[tuple[str, Any]] = [
    ("task", "multiclass"),
    ("rule", "mse"),
    ("n_bins", 0),
    ("n_bins", 1.5),
    ("n_bins", True),
    ("n_bins", [0.5]),
    ("n_bins", [0, 0.5, 0.5, 1]),
    ("n_bins", ["a", "b"]),
    ("strategy", "equal"),
    ("partition", "forest"),
    ("partition", 12),
    ("curve", "spline"),
    ("method", "unknown"),
    ("split", 0),
    ("split", 1.5),
    ("repeats", 0),
    ("repeats", 2.5),
    ("repeats", float("nan")),
    ("recalibrate", "platt"),
    ("adjust", "bonferroni"),
    ("confidence_level", 95),
    ("tolerance", 0),
    ("tolerance", 2.0),
    ("random_state", -1),
    ("random_state", "seed"),
    ("n_jobs", 0),
    ("n_jobs", 1.5),
]


@pytest.mark.parametrize(("name", "value"), BAD_OPTIONS)
def test_a_wrong_option_is_told_in_a_line_with_its_name_and_value(name: str, value: Any) -> None:
    with pytest.raises(OptionError) as caught:
        audit(Y, S, X, **{name: value})
    said = str(caught.value)
    assert ("bin edges" if isinstance(value, list) else name) in said
    assert (repr(value[0]) if isinstance(value, list) else repr(value)) in said
    assert "\n" not in said


@pytest.mark.parametrize("bins", [0, True, 2.5])
def test_the_joint_task_checks_its_bins_too(bins: Any) -> None:
    with pytest.raises(OptionError, match="n_bins"):
        audit(Y, S, X, task="joint", n_bins=bins)


def test_repeats_may_be_any_whole_number() -> None:
    twice = audit(Y, S, X, n_bins=4, repeats=2)
    assert audit(Y, S, X, n_bins=4, repeats=2.0).plugin == twice.plugin  # type: ignore[arg-type]


def test_forests_are_refused_as_partitions() -> None:
    from sklearn.ensemble import RandomForestClassifier

    with pytest.raises(OptionError, match="single tree"):
        audit(Y, S, X, n_bins=4, partition=RandomForestClassifier(3))


def test_kmeans_refuses_missing_features_wherever_they_are() -> None:
    for row in range(4):
        features = X.copy()
        features[row, 1] = np.nan
        with pytest.raises(DataError, match="'x1'"):
            audit(Y, S, features, n_bins=4, partition="kmeans")


def test_too_few_rows_to_learn_from_are_told() -> None:
    with pytest.raises(DataError, match="too few"):
        audit([0, 1], [0.51, 0.52], [[1.0], [2.0]], split=0.01)


# hard numbers: no warning may escape, and the ledger still adds up

N = 300
Y_, S_, X_ = rows(N, seed=1)
HARD_SCORES: dict[str, Any] = {
    "constant": np.full(N, 0.3),
    "all zero": np.zeros(N),
    "all one": np.ones(N),
    "certain": np.where(S_ > 0.5, 1.0, 0.0),
    "certain and right": Y_.astype(float),
    "ties": np.round(S_, 1),
    "two values": np.where(S_ > 0.5, 0.1, 0.9),
    "some denormal": np.where(S_ > 0.5, 5e-324, S_),
    "all denormal": np.arange(1, N + 1) * 5e-324,
    "tiny": S_ * 1e-13,
    "near one": 1 - np.arange(N) % 7 * 2.0**-53,
    "mostly zero": np.where(np.arange(N) < 290, 0.0, S_),
}
DATA: dict[str, dict[str, Any]] = {"blind": {}, "X": {"X": X_}, "subgroups": {"subgroups": X_[:, 0] > 0}}


@pytest.mark.parametrize("rule", ["brier", "log"])
@pytest.mark.parametrize("scores", HARD_SCORES.values(), ids=HARD_SCORES.keys())
@pytest.mark.parametrize("data", DATA.values(), ids=DATA.keys())
def test_hard_scores_add_up_without_a_warning(rule: str, scores: Any, data: dict[str, Any]) -> None:
    for binning, method in (("uniform", "crossfit"), ("quantile", "partition")):
        assert_adds_up(audit(Y_, scores, **data, rule=rule, strategy=binning, n_bins=4, method=method))


@pytest.mark.parametrize("curve", ["isotonic", "lowess", "nearest"])
@pytest.mark.parametrize("scores", HARD_SCORES.values(), ids=HARD_SCORES.keys())
def test_hard_scores_suit_every_curve(curve: str, scores: Any) -> None:
    for rule in ("brier", "log"):
        assert_adds_up(audit(Y_, scores, subgroups=X_[:, 0] > 0, rule=rule, curve=curve, n_bins=4))


@pytest.mark.parametrize("recalibrate", ["isotonic", "sigmoid"])
@pytest.mark.parametrize("scores", HARD_SCORES.values(), ids=HARD_SCORES.keys())
def test_hard_scores_can_be_recalibrated(recalibrate: str, scores: Any) -> None:
    for rule in ("brier", "log"):
        result = audit(Y_, scores, rule=rule, recalibrate=recalibrate, n_bins=4)
        assert result.recalibrated is not None
        assert_adds_up(result.recalibrated)


def test_the_log_loss_of_certain_and_right_scores_is_zero() -> None:
    assert audit(Y_, Y_.astype(float), rule="log").score.value == 0


def test_an_infinite_log_loss_is_told_and_is_null_in_json() -> None:
    result = audit(Y_, np.where(S_ > 0.5, 1.0, S_), rule="log", subgroups=X_[:, 0] > 0, n_bins=4)
    assert result.score.value == math.inf
    assert any("infinite" in remark for remark in result.remarks)
    assert json.loads(result.to_json())["score"]["value"] is None


HARD_FEATURES: dict[str, Any] = {
    "no feature": X_[:, :0],
    "one feature": X_[:, :1],
    "constant": np.ones((N, 2)),
    "all missing": np.full((N, 2), np.nan),
    "some missing": np.where(X_ > 1, np.nan, X_),
    "denormal": X_ * 1e-310,
    "text": np.where(X_ > 0, "u", "v"),
    "many categories": np.arange(N).astype(str)[:, None],
    "mixed": {"number": X_[:, 0], "text": ["u", "v", None] * (N // 3), "flag": X_[:, 1] > 0},
}


@pytest.mark.parametrize("rule", ["brier", "log"])
@pytest.mark.parametrize("features", HARD_FEATURES.values(), ids=HARD_FEATURES.keys())
def test_hard_features_add_up_without_a_warning(rule: str, features: Any) -> None:
    for partition, method in (("tree", "crossfit"), ("stump", "partition")):
        assert_adds_up(audit(Y_, S_, features, rule=rule, n_bins=3, partition=partition, method=method))


@pytest.mark.parametrize("name", ["no feature", "one feature", "constant", "denormal", "text"])
def test_hard_features_can_be_clustered(name: str) -> None:
    features = HARD_FEATURES[name]
    assert_adds_up(audit(Y_, S_, features, n_bins=3, partition="kmeans", method="partition"))


@pytest.mark.parametrize("partition", ["tree", "stump", "kmeans"])
def test_a_feature_beyond_float32_is_used_or_refused_by_its_name(partition: str) -> None:
    try:
        result = audit(
            Y_, S_, {"small": X_[:, 1], "huge": X_[:, 0] * 1e300}, n_bins=3, partition=partition
        )
    except DataError as error:
        assert "'huge'" in str(error)  # noqa: PT017  # either outcome is lawful
        return
    assert_adds_up(result)
    assert result.plugin > 0


HARD_WEIGHTS: dict[str, Any] = {
    "equal": np.ones(N),
    "denormal": np.full(N, 5e-324),
    "huge": (1 + np.arange(N)) * 1e300,
    "whole": np.arange(N) % 4,
    "one row rules": np.where(np.arange(N) == 0, 1e9, 1.0),
    "of many sizes": 10.0 ** (np.arange(N) % 17),
    "mostly zero": (np.arange(N) < 6).astype(float),
}


@pytest.mark.parametrize("rule", ["brier", "log"])
@pytest.mark.parametrize("weights", HARD_WEIGHTS.values(), ids=HARD_WEIGHTS.keys())
@pytest.mark.parametrize("data", DATA.values(), ids=DATA.keys())
def test_hard_weights_add_up_without_a_warning(rule: str, weights: Any, data: dict[str, Any]) -> None:
    assert_adds_up(audit(Y_, S_, **data, sample_weight=weights, rule=rule, n_bins=3))


@pytest.mark.parametrize("rule", ["brier", "log"])
@pytest.mark.parametrize("curve", [None, "isotonic", "lowess", "nearest"])
@pytest.mark.parametrize(
    "data",
    [{}, {"X": X}, {"subgroups": G}, {"subgroups": np.arange(600)}, {"subgroups": np.arange(600) // 2}],
    ids=["blind", "X", "groups", "groups of one", "groups of two"],
)
def test_one_positive_among_hundreds_adds_up_without_a_warning(
    rule: str, curve: str | None, data: dict[str, Any]
) -> None:
    labels = np.zeros(600, int)
    labels[17] = 1
    for binning in ("uniform", "quantile"):
        # the bound without bins has neither bins nor this curve
        method = "crossfit" if curve is None and binning == "uniform" else "partition"
        options: dict[str, Any] = {"curve": curve, "strategy": binning, "method": method}
        assert_adds_up(audit(labels, S / 100, **data, rule=rule, **options))


@mostly_audited(
    40,
    st.integers(0, 2**32 - 1),
    st.integers(2, 40),
    st.sampled_from([None, 0, 1, 2]),
    st.sampled_from(["brier", "log"]),
    st.sampled_from([None, "top-label", "classwise", "joint"]),
    st.sampled_from(["spread", "ties", "certain"]),
    st.booleans(),
    least=0.7,
)
def test_a_handful_of_rows_adds_up_or_is_refused_in_words(
    seed: int, n: int, d: int | None, rule: str, task: str | None, scores: str, weighted: bool
) -> bool:
    y, s, X = rows(n, seed, d or 0)
    s = {"spread": s, "ties": np.round(s, 1), "certain": np.round(s)}[scores]
    weights = np.random.default_rng(seed).random(n) if weighted else None
    try:
        result = audit(
            y, s, None if d is None else X, rule=rule, task=task, n_bins=3, sample_weight=weights
        )
    except DataError as error:
        assert "too few" in str(error)  # noqa: PT017  # either outcome is lawful
        return False
    assert_adds_up(result)
    return True


# the import


def modules_after(statement: str) -> set[str]:
    """Return the packages that a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in run.stdout.split()}


@pytest.mark.parametrize(
    "statement", ["import epiloss", "import epiloss.cli", "import epiloss; dir(epiloss)"]
)
def test_importing_the_package_loads_nothing_heavy(statement: str) -> None:
    heavy = {"torch", "matplotlib", "dask", "pandas", "polars", "pyarrow", "sklearn", "scipy"}
    assert not modules_after(statement) & heavy


def test_everything_the_package_names_is_there() -> None:
    for name in epiloss.__all__:
        assert getattr(epiloss, name) is not None
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = epiloss.nothing_of_the_kind


def test_recalibration_heeds_the_weights() -> None:
    y, s, X = rows(2_000, 5)
    bent = s**2
    weights = np.where(s > 0.5, 50.0, 1.0)
    for recalibrate in ("isotonic", "sigmoid"):
        result = audit(
            y, bent, X, n_bins=5, method="partition", sample_weight=weights, recalibrate=recalibrate
        )
        assert result.recalibrated is not None
        assert result.recalibrated.calibration_loss.value < 0.5 * result.calibration_loss.value


def test_a_recalibrator_that_cannot_weigh_is_refused_where_there_are_weights() -> None:
    class Same:
        def fit(self, scores: Any, labels: Any) -> None: ...

        def predict(self, scores: Any) -> Any:
            return scores

    assert audit(Y, S, X, n_bins=4, recalibrate=Same()).recalibrated is not None
    with pytest.raises(OptionError, match="sample_weight"):
        audit(Y, S, X, n_bins=4, recalibrate=Same(), sample_weight=S + 1)


def test_a_random_state_of_the_older_kind_is_a_source_of_randomness() -> None:
    sample = epiloss.simulate.Sigmoid().sample(500)
    data = (sample.y, sample.scores, sample.X)
    first, second = (
        epiloss.audit(*data, method="partition", n_bins=3, random_state=np.random.RandomState(seed))
        for seed in (4, 4)
    )
    assert first.to_dict() == second.to_dict()


def test_a_recalibrator_that_takes_no_vector_is_refused_in_a_sentence() -> None:
    from sklearn.linear_model import LogisticRegression

    sample = epiloss.simulate.Sigmoid().sample(500)
    with pytest.raises(
        epiloss.OptionError, match=r"takes two vectors, got LogisticRegression, which raised"
    ):
        epiloss.audit(sample.y, sample.scores, sample.X, n_bins=3, recalibrate=LogisticRegression())


def test_a_page_in_a_folder_that_is_not_there_is_refused_by_its_name(tmp_path: Path) -> None:
    sample = epiloss.simulate.Sigmoid().sample(500)
    result = epiloss.audit(sample.y, sample.scores)
    with pytest.raises(FileNotFoundError, match=r"the folder of 'a.html' must exist, got '.*nowhere'"):
        result.to_html(tmp_path / "nowhere" / "a.html")


def test_a_level_is_printed_with_its_digits() -> None:
    assert "[99.5% interval]" in str(audit(Y, S, subgroups=G, n_bins=4, confidence_level=0.995))
    assert "[95% interval]" in str(audit(Y, S, subgroups=G, n_bins=4))


def test_one_level_set_is_not_several() -> None:
    assert ", 1 level set, 2 regions by subgroup)" in str(audit(Y, S, subgroups=G, n_bins=1))
    assert ", 1 level set)" in str(audit(Y, S, n_bins=1))


def test_groups_that_split_no_level_set_are_told_what_to_do_about_groups() -> None:
    notes = [
        note for note in audit(Y, S, subgroups=np.zeros(len(Y)), n_bins=4).remarks if "split" in note
    ]
    assert len(notes) == 1
    assert "larger subgroups" in notes[0]
    assert "region_ratio" not in notes[0]
