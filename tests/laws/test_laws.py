"""Laws of every audit, over problems and options drawn at random: they hold, or it is told why not.

Runs are derandomised: the same examples in every run. Warnings are errors, so that none escapes. Where
a problem may be refused, a share of those drawn must not be: refusing everything would fail.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import epiloss
from audit_laws import laws, mostly_audited
from epiloss import Audit, DataError, OptionError, RegionPlan, RegionStats
from epiloss.estimation.region_rows import FIELDS
from epiloss.partition import Tree
from epiloss.scoring import resolve_rule

SCORES = ("any", "ties", "constant", "hard", "denormal", "near the ends")
LABELS = ("by score", "coin", "one positive", "perfect", "inverted")
FEATURES = ("any", "ties", "constant", "denormal", "huge", "missing", "mixed")
WEIGHTS = (None, "any", "whole", "denormal", "one heavy", "some zero")
LOSSES = ("score", "calibration_loss", "grouping_loss", "remainder")
SEEDS = st.integers(0, 2**32 - 1)
Choices = Mapping[Any, Callable[[], Any]]


@dataclass(frozen=True)
class Rows:
    """A problem, with what else may be told of its rows."""

    y: Any
    s: Any
    X: Any
    weights: Any
    clusters: Any
    groups: Any


def draw_scores(g: np.random.Generator, n: int, kind: str) -> Any:
    kinds: Choices = {
        "any": lambda: g.random(n),
        "ties": lambda: g.integers(0, 4, n) / 3,
        "constant": lambda: np.full(n, g.choice([0.0, 0.3, 1.0])),
        "hard": lambda: g.integers(0, 2, n).astype(float),
        "denormal": lambda: g.choice([5e-324, 1e-310, 0.5, 1 - 2**-53], n),
        "near the ends": lambda: np.clip(g.choice([0.0, 1.0], n) + g.normal(size=n) * 1e-12, 0, 1),
    }
    return kinds[kind]()


def draw_labels(g: np.random.Generator, scores: Any, kind: str) -> Any:
    n = len(scores)
    kinds: Choices = {
        "by score": lambda: (g.random(n) < scores).astype(int),
        "coin": lambda: g.integers(0, 2, n),
        "one positive": lambda: (np.arange(n) == g.integers(n)).astype(int),
        "perfect": lambda: (scores > np.median(scores)).astype(int),
        "inverted": lambda: (scores < np.median(scores)).astype(int),
    }
    y = kinds[kind]()
    y[g.permutation(n)[:2]] = [0, 1]  # both classes, or there is nothing to audit
    return y


def draw_features(g: np.random.Generator, n: int, d: int, kind: str) -> Any:
    X = g.normal(size=(n, d))
    kinds: Choices = {
        "any": lambda: X,
        "ties": lambda: g.integers(0, 3, (n, d)).astype(float),
        "constant": lambda: np.full((n, d), g.normal()),
        "denormal": lambda: X * 1e-310,
        "huge": lambda: X * 1e30,
        "missing": lambda: np.where(g.random((n, d)) < 0.5, np.nan, X),
        "mixed": lambda: {f"x{j}": g.choice(["a", "b"], n) if j % 2 else X[:, j] for j in range(d)},
    }
    return kinds[kind]()


def draw_weights(g: np.random.Generator, n: int, kind: str | None) -> Any:
    kinds: Choices = {
        None: lambda: None,
        "any": lambda: g.random(n) + 0.01,
        "whole": lambda: g.integers(1, 4, n).astype(float),
        "denormal": lambda: g.choice([5e-324, 1e-310], n),
        "one heavy": lambda: np.where(np.arange(n) == 0, 1e12, 1.0),
        "some zero": lambda: g.integers(0, 2, n).astype(float),
    }
    return kinds[kind]()


@st.composite
def problems(draw: Any, least: int = 2, most: int = 260) -> Rows:
    """Draw a binary problem of few rows, most of them awkward in some way."""
    n, g = draw(st.integers(least, most)), np.random.default_rng(draw(SEEDS))
    s = draw_scores(g, n, draw(st.sampled_from(SCORES)))
    X = draw_features(g, n, draw(st.integers(0, 3)), draw(st.sampled_from(FEATURES)))
    clusters = g.integers(0, max(n // 3, 1), n) if draw(st.booleans()) else None
    weights = draw_weights(g, n, draw(st.sampled_from(WEIGHTS)))
    y = draw_labels(g, s, draw(st.sampled_from(LABELS)))
    return Rows(y, s, X, weights, clusters, g.choice(["a", "b", "c"], n))


OPTIONS = st.fixed_dictionaries(
    {
        "rule": st.sampled_from(["brier", "log"]),
        "method": st.sampled_from(["crossfit", "partition", "paper"]),
        "partition": st.sampled_from(["tree", Tree(2), "stump", "kmeans"]),
        "n_bins": st.sampled_from([1, 4, 15, (0.0, 0.1, 0.9, 1.0)]),
        "strategy": st.sampled_from(["uniform", "quantile"]),
        "curve": st.sampled_from([None, "isotonic", "lowess", "nearest"]),
        "recalibrate": st.sampled_from([None, None, "isotonic", "sigmoid"]),
        "repeats": st.sampled_from([1, 1, 2]),
        "adjust": st.sampled_from(["benjamini-hochberg", "max"]),
    }
)


def told(error: Exception) -> None:
    """Check that a refusal is one sentence or a few, without a trace of the code."""
    text = str(error)
    assert text.endswith((".", ")", "1]")), text
    assert "\n" not in text
    assert len(text) < 400


def holds(result: Audit) -> None:
    """Check what holds for every audit."""
    ledger = {name: getattr(result, name).value for name in LOSSES}
    if math.isfinite(ledger["score"]):
        parts = ledger["calibration_loss"] + ledger["grouping_loss"] + ledger["remainder"]
        assert ledger["score"] == pytest.approx(parts, abs=1e-9 * max(1, abs(ledger["score"])))
    for name in (*LOSSES, "partition_bound", "crossfit_bound"):
        one = getattr(result, name)
        if one is None or not math.isfinite(one.value):
            continue
        assert one.stderr is None or one.stderr >= 0
        # a lower bound's interval is of what cannot be below zero, its value is not
        assert one.low is None or one.low <= max(one.value, 0.0)
        assert one.high is None or one.value <= one.high
        assert one.pvalue is None or 0 <= one.pvalue <= 1
    share = result.level_sets["share"]
    per_class = max(len(np.unique(result.level_sets["class"])), 1) if "class" in result.level_sets else 1
    assert share.sum() == pytest.approx(per_class, abs=1e-9)
    regions = result.regions
    assert (regions["low"] <= regions["label_mean"] + 1e-9).all()
    assert (regions["label_mean"] <= regions["high"] + 1e-9).all()
    assert (
        (regions["pvalue_adjusted"] >= regions["pvalue"] - 1e-12) | np.isnan(regions["pvalue"])
    ).all()
    assert 0 < result.n_evaluated <= result.n_samples
    json.loads(result.to_json())
    assert str(result)
    assert str(result.verdict)
    if result.recalibrated is not None:
        holds(result.recalibrated)
    for by_subgroup in result.subgroups.values():
        holds(by_subgroup)


def audited(rows: Rows, groups: bool = False, **options: Any) -> Audit | None:
    """Return the audit, or None where it was refused in words."""
    of_rows = {"sample_weight": rows.weights, "clusters": rows.clusters}
    try:
        return epiloss.audit(
            rows.y, rows.s, rows.X, subgroups=rows.groups if groups else None, **of_rows, **options
        )
    except (DataError, OptionError) as error:
        told(error)
        return None


# everything at once


@mostly_audited(250, problems(), OPTIONS, st.booleans(), least=0.5)
def test_any_binary_problem_is_audited_or_refused_in_words(
    rows: Rows, options: dict[str, Any], groups: bool
) -> bool:
    result = audited(rows, groups, **options)
    if result is not None:
        holds(result)
    return result is not None


@mostly_audited(
    60,
    SEEDS,
    st.integers(3, 160),
    st.integers(3, 5),
    st.sampled_from(["top-label", "classwise", "joint"]),
    st.sampled_from(["tree", "stump", "kmeans"]),
    st.sampled_from(["brier", "log"]),
    st.sampled_from(["any", "ties", "hard"]),
    st.sampled_from([None, "any", "whole"]),
    st.booleans(),
    least=0.8,
)
def test_any_problem_of_several_classes_is_audited_or_refused_in_words(
    seed: int,
    n: int,
    k: int,
    task: str,
    partition: str,
    rule: str,
    kind: str,
    weights: str | None,
    clustered: bool,
) -> bool:
    g = np.random.default_rng(seed)
    kinds: Choices = {
        "any": lambda: g.dirichlet(np.ones(k), n),
        "ties": lambda: np.array([np.eye(k)[0], np.full(k, 1 / k)])[g.integers(0, 2, n)],
        "hard": lambda: np.eye(k)[g.integers(0, k, n)],
    }
    scores = kinds[kind]()
    labels = np.array([g.choice(k, p=p) for p in scores])
    labels[:3] = [0, 1, 2]
    options: dict[str, Any] = {
        "sample_weight": draw_weights(g, n, weights),
        "clusters": g.integers(0, n // 3 + 1, n) if clustered else None,
        "classes": list(range(k)),
    }
    X = draw_features(g, n, 2, "any")
    try:
        result = epiloss.audit(
            labels, scores, X, task=task, partition=partition, rule=rule, n_bins=4, **options
        )
    except (DataError, OptionError) as error:
        told(error)
        return False
    holds(result)
    return True


@mostly_audited(15, problems(least=20), OPTIONS, least=0.6)
def test_whatever_is_audited_has_a_page(rows: Rows, options: dict[str, Any]) -> bool:
    result = audited(rows, **options)
    if result is not None:
        assert result.to_html().startswith("<!DOCTYPE html>")
    return result is not None


@mostly_audited(25, problems(), problems(), OPTIONS, least=0.8)
def test_whatever_follows_an_audit_comes_or_is_refused_in_words(
    rows: Rows, later: Rows, options: dict[str, Any]
) -> bool:
    """Comparison, drift, repair and regret: in most examples two of them or more come."""
    rule, of_rows = options["rule"], {"sample_weight": rows.weights, "clusters": rows.clusters}
    same = {**options, **of_rows, "method": "partition"}
    drifting = {name: options[name] for name in ("rule", "partition", "n_bins", "strategy", "curve")}
    samples = [(one.y, one.s, np.sqrt(one.s)[:, None]) for one in (rows, later)]
    result = audited(rows, rule=rule, method="partition")
    works: list[Callable[[], Any]] = [
        lambda: epiloss.compare(rows.y, {"one": rows.s, "turned": 1 - rows.s}, rows.X, **same),
        lambda: epiloss.drift(*samples, **drifting),
    ]
    if result is not None:
        works += [result.repair, lambda: epiloss.regret(result)]
    came = 0
    for work in works:
        try:
            json.loads(work().to_json())
            came += 1
        except (DataError, OptionError) as error:
            told(error)
    return came >= 2


@pytest.mark.parametrize("rule", ["brier", "log"])
@pytest.mark.parametrize("partition", ["tree", "stump", "kmeans"])
def test_one_positive_in_thousands_is_audited(rule: str, partition: str) -> None:
    g = np.random.default_rng(0)
    y = np.arange(4_000) == 17
    rows = Rows(y, g.beta(0.1, 20, len(y)), g.normal(size=(len(y), 3)), None, None, None)
    result = audited(rows, partition=partition, rule=rule)
    assert result is not None
    holds(result)


# the order of rows


def taken(rows: Rows, order: Any) -> Rows:
    """Return the rows in another order, or some of them more than once."""
    X = rows.X
    X = {name: column[order] for name, column in X.items()} if isinstance(X, dict) else X[order]
    own = (None if one is None else one[order] for one in (rows.weights, rows.clusters, rows.groups))
    return Rows(rows.y[order], rows.s[order], X, *own)


def close(one: Any, other: Any, names: tuple[str, ...], tolerance: float = 1e-9) -> None:
    """Check that both audits have the same values, to rounding."""
    for name in names:
        a, b = (float(getattr(result, name)) for result in (one, other))
        if math.isfinite(a) or math.isfinite(b):
            assert a == pytest.approx(b, abs=tolerance * max(1, abs(a))), name


@mostly_audited(
    60,
    problems(),
    SEEDS,
    st.sampled_from(["brier", "log"]),
    st.sampled_from([None, "isotonic", "lowess", "nearest"]),
    st.booleans(),
    least=0.8,
)
def test_where_nothing_is_learned_the_order_of_rows_does_not_matter(
    rows: Rows, seed: int, rule: str, curve: str | None, groups: bool
) -> bool:
    rows = Rows(rows.y, rows.s, np.empty((len(rows.y), 0)), rows.weights, rows.clusters, rows.groups)
    order = np.random.default_rng(seed).permutation(len(rows.y))
    options: dict[str, Any] = {"rule": rule, "curve": curve, "n_bins": 4}
    one, other = (audited(some, groups, **options) for some in (rows, taken(rows, order)))
    assert (one is None) == (other is None)
    if one is not None:
        close(one, other, (*LOSSES, "plugin", "bias", "induced"))
    return one is not None


@mostly_audited(30, problems(least=40), SEEDS, st.sampled_from(["brier", "log"]), least=0.9)
def test_where_regions_are_learned_the_order_of_rows_only_chooses_who_learns(
    rows: Rows, seed: int, rule: str
) -> bool:
    # halves that change places evaluate every row: what needs no regions is that of all rows
    order = np.random.default_rng(seed).permutation(len(rows.y))
    options: dict[str, Any] = {"rule": rule, "method": "partition", "n_bins": 4}
    one, other = (audited(some, **options) for some in (rows, taken(rows, order)))
    if one is None or other is None:
        return False
    close(one, other, ("score", "calibration_loss"))
    return True


def stats_of(rows: Rows, cells: Any, part: Any, rule: str) -> RegionStats:
    level_set, region = cells
    labels = rows.y[part].astype(float)
    weights = None if rows.weights is None else rows.weights[part]
    return RegionStats.from_rows(
        level_set[part],
        region[part],
        labels=labels,
        scores=rows.s[part],
        rule=resolve_rule(rule),
        weights=weights,
    )


@laws(60)
@given(
    problems(),
    SEEDS,
    st.integers(1, 9),
    st.sampled_from(["brier", "log"]),
    st.sampled_from([None, "any", "whole"]),
)
def test_rows_in_given_regions_have_the_same_sums_in_any_order_and_in_any_batches(
    rows: Rows, seed: int, n_batches: int, rule: str, weights: str | None
) -> None:
    g = np.random.default_rng(seed)
    n = len(rows.y)
    scaled = draw_weights(g, n, weights)
    rows = Rows(rows.y, rows.s, rows.X, None if scaled is None else scaled / 4, None, None)
    cells = g.integers(0, 3, n), g.integers(0, 4, n)
    whole = stats_of(rows, cells, np.arange(n), rule)
    together = RegionStats.empty()
    for part in np.array_split(g.permutation(n), n_batches):
        together = stats_of(rows, cells, part, rule).merge(together)
    for name in ("level_set", "region", "sums"):
        np.testing.assert_array_equal(getattr(together, name), getattr(whole, name))
    assert whole.sums.shape[1] == len(FIELDS)


@laws(20)
@given(SEEDS, st.integers(100, 400), st.integers(1, 12))
def test_a_plan_counts_rows_the_same_in_any_order_and_in_any_batches(
    seed: int, n: int, n_batches: int
) -> None:
    g = np.random.default_rng(seed)
    X, s = g.normal(size=(2 * n, 2)), g.random(2 * n)
    y = (g.random(2 * n) < s).astype(int)
    y[:2] = [0, 1]
    plan = RegionPlan.learn(y[:n], s[:n], X[:n], n_bins=3)
    new = np.arange(n, 2 * n)
    whole = plan.stats(y[new], s[new], X[new])
    together = RegionStats.empty(plan.name)
    for part in np.array_split(g.permutation(new), n_batches):
        if len(part):
            together = together.merge(plan.stats(y[part], s[part], X[part]))
    np.testing.assert_array_equal(together.sums, whole.sums)


@mostly_audited(
    20, problems(least=20), SEEDS, st.integers(1, 6), st.sampled_from(["brier", "log"]), least=0.9
)
def test_a_table_has_the_same_bits_in_any_order_and_in_any_batches(
    rows: Rows, seed: int, n_batches: int, rule: str
) -> bool:
    pa = pytest.importorskip("pyarrow", reason="tables are read by pyarrow")
    g = np.random.default_rng(seed)
    X = rows.X if isinstance(rows.X, dict) else {f"x{j}": rows.X[:, j] for j in range(rows.X.shape[1])}
    columns = {**X, "label": rows.y, "score": rows.s, "row": np.arange(len(rows.y))}
    whole = pa.table(columns)
    parts = np.array_split(g.permutation(len(rows.y)), n_batches)
    found = []
    for table in (whole, pa.concat_tables([whole.take(part) for part in parts])):
        try:
            result = epiloss.audit_table(
                table, label="label", score="score", rule=rule, row_id="row", n_bins=4
            )
        except (DataError, OptionError) as error:
            told(error)
            found.append(type(error).__name__)
        else:
            found.append(result.to_json())
    assert found[0] == found[1]
    return found[0].startswith("{")


# rows told twice, classes turned round, features that tell nothing more


@mostly_audited(40, problems(), st.sampled_from(["brier", "log"]), st.integers(2, 5), least=0.9)
def test_rows_repeated_have_the_score_rates_and_plugin_of_weights(
    rows: Rows, rule: str, times: int
) -> bool:
    n = len(rows.y)
    once = Rows(rows.y, rows.s, np.empty((n, 0)), np.full(n, float(times)), None, rows.groups)
    again = taken(once, np.repeat(np.arange(n), times))
    again = Rows(again.y, again.s, again.X, None, np.repeat(np.arange(n), times), again.groups)
    weighted, repeated = (audited(some, True, rule=rule, n_bins=3) for some in (once, again))
    if weighted is None or repeated is None:
        return False
    close(weighted, repeated, ("score",))
    for name in ("share", "score_mean", "label_mean"):
        np.testing.assert_allclose(weighted.level_sets[name], repeated.level_sets[name], atol=1e-9)
    return True


@laws(40)
@given(SEEDS, st.integers(2, 200), st.sampled_from(["brier", "log"]), st.booleans())
def test_with_classes_turned_round_losses_stay_and_level_sets_are_mirrored(
    seed: int, n: int, rule: str, groups: bool
) -> None:
    g = np.random.default_rng(seed)
    s = (2 * g.integers(0, 128, n) + 1) / 256  # never on the edge of a bin, and exact from both ends
    y = draw_labels(g, s, "coin")
    known: Any = {"subgroups": g.integers(0, 3, n)} if groups else {}
    # The curve is given, and there are no learners: reversed scores would split rows into other parts.
    known |= {"method": "partition"}
    straight = epiloss.audit(y, s, curve=lambda p: p**2, rule=rule, n_bins=8, **known)
    turned = epiloss.audit(1 - y, 1 - s, curve=lambda p: 1 - (1 - p) ** 2, rule=rule, n_bins=8, **known)
    close(straight, turned, (*LOSSES, "plugin", "bias", "induced"))
    for name in ("score_mean", "label_mean"):
        np.testing.assert_allclose(
            straight.level_sets[name], 1 - turned.level_sets[name][::-1], atol=1e-9
        )
    for name in ("n", "share", "calibration_loss", "grouping_loss"):
        np.testing.assert_allclose(straight.level_sets[name], turned.level_sets[name][::-1], atol=1e-9)


@laws(25)
@given(SEEDS, st.integers(30, 400), st.sampled_from(["brier", "log"]))
def test_a_constant_feature_changes_no_tree(seed: int, n: int, rule: str) -> None:
    g = np.random.default_rng(seed)
    s, X = g.random(n), g.normal(size=(n, 2))
    y = draw_labels(g, s, "by score")
    options: dict[str, Any] = {"rule": rule, "n_bins": 3, "partition": Tree(4), "method": "partition"}
    plain = epiloss.audit(y, s, X, **options)
    more = epiloss.audit(y, s, np.column_stack([X, np.full(n, 7.0)]), **options)
    assert more.to_dict() == plain.to_dict()


@laws(30)
@given(SEEDS, st.integers(30, 600), st.sampled_from([Tree(4), "stump"]), st.booleans())
def test_trees_know_the_order_of_a_feature_and_not_its_scale(
    seed: int, n: int, partition: Any, linear: bool
) -> None:
    g = np.random.default_rng(seed)
    if linear:  # any values, in other units
        X = g.normal(size=(n, 2))
        other_scale = X * 2.0 ** g.integers(-20, 20)
    else:  # any increasing map, of values that all rows who learn have met: others are halfway
        n += 400
        X = g.integers(0, 6, (n, 2)).astype(float)
        other_scale = np.cumsum(np.exp(g.normal(0, 5, 6)) + 1e-3)[X.astype(int)]
    s = g.random(n)
    y = draw_labels(g, s, "by score")
    options: dict[str, Any] = {"partition": partition, "n_bins": 3}
    one, other = (
        epiloss.audit(y, s, features, method="partition", **options) for features in (X, other_scale)
    )
    assert one.grouping_loss == other.grouping_loss
    for name in ("level_set", "region", "n", "label_mean", "score_mean", "cost"):
        np.testing.assert_array_equal(one.regions[name], other.regions[name])


def test_a_partition_of_ones_own_may_meet_level_sets_with_one_class() -> None:
    class Halves:
        def fit(self, X: Any, y: Any) -> None:
            self.middle = np.median(X[:, 0])

        def predict(self, X: Any) -> Any:
            return X[:, 0] > self.middle

    g = np.random.default_rng(0)
    s = g.random(300)
    result = epiloss.audit(s > 0.5, s, g.normal(size=(300, 1)), partition=Halves(), n_bins=4)
    holds(result)
