"""Twin learners beyond memory: models trained on a sample evaluate every row of the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import epiloss
from epiloss.input.tasks import BinaryProblem, binary_problems
from epiloss.simulate import MultiClass, Sigmoid
from epiloss.sources import base
from epiloss.streaming import from_tally, run
from epiloss.streaming.tally import Tally
from streaming_rows import SMALL, N, audited, shuffled, stopped_by

TWIN: dict[str, Any] = {"method": "twin"}


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, Any]:
    return audited(folder, **TWIN)


# the same bits


def test_the_result_says_what_was_learned_on_a_sample_and_that_all_rows_were_evaluated(
    expected: dict[str, Any],
) -> None:
    assert expected["method"] == "twin"
    told = next(one["text"] for one in expected["remarks"] if one["code"] == "sampled")
    n_sample = told.split("a sample of ")[1].split(" ")[0]
    assert f"all {N:,} rows were evaluated, with a sample of {n_sample} in memory; regions" in told
    assert "the models of the headline were learned on the sample; standard errors" in told
    assert (
        f"learned on a sample of {n_sample} rows, evaluated on all {N:,})" in expected["recommendation"]
    )


def test_processes_and_the_order_of_rows_do_not_matter(
    whole: Any, folder: Path, expected: dict[str, Any]
) -> None:
    assert audited(shuffled(whole), engine="memory", **TWIN) == expected
    assert audited(folder, n_jobs=2, **TWIN) == expected


def test_files_and_batches_do_not_change_the_result(
    whole: Any, tmp_path: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_BATCH_ROWS", 1_700)
    for place, start in enumerate(range(0, N, 11_000)):
        part = whole.slice(start, 11_000)
        parquet.write_table(part, tmp_path / f"{place}.parquet", row_group_size=3_100)
    assert audited(tmp_path, **TWIN) == expected


def test_a_stopped_run_continues_from_its_checkpoint(
    folder: Path, tmp_path: Path, expected: dict[str, Any]
) -> None:
    with stopped_by(KeyboardInterrupt):
        audited(folder, checkpoint=tmp_path, **TWIN)
    assert (tmp_path / "tally.checkpoint").exists()
    assert audited(folder, checkpoint=tmp_path, **TWIN) == expected


@pytest.mark.filterwarnings("ignore:A worker stopped")
def test_a_worker_that_dies_does_not_change_the_result(
    folder: Path, died: Path, expected: dict[str, Any]
) -> None:
    assert audited(folder, n_jobs=2, **TWIN) == expected
    assert died.exists()


# all rows are evaluated


class Passed:
    """Records the arguments of ``audit_of_tally``, with samples of a given size."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        inner = from_tally.audit_of_tally

        def noted(*given: Any) -> epiloss.Audit:
            self.given = given
            return inner(*given)

        monkeypatch.setattr(run, "capacity", lambda reader, memory: room)
        monkeypatch.setattr(run, "audit_of_tally", noted)

    @property
    def models(self) -> Any:
        return self.given[3]

    @property
    def tally(self) -> Tally:
        found: Tally = self.given[4]
        return found

    def problems(self, rows: Any, **options: Any) -> tuple[list[BinaryProblem], Any]:
        """Return all rows as they would be in memory, and which of them were sampled."""
        found = epiloss.audit_table(rows, memory="2GB", method="partition", **options)
        assert found.details is not None
        whole, sampled = found.details.problem, self.given[0].problem
        assert whole.rows is not None
        kept = np.isin(whole.rows, sampled.rows)
        assert kept.sum() == len(sampled.labels)
        return binary_problems(whole, found.details.options.rule), kept


def means_given_the_score(evaluated: Any) -> Any:
    """Return the projections of the columns on the splines of the score, by least squares."""
    basis = evaluated.basis
    design = np.zeros((len(basis.first), basis.n_splines))
    for i, values in enumerate(basis.values):
        design[np.arange(len(design)), basis.first + i] = values
    root = np.ones(len(design)) if basis.weight is None else np.sqrt(basis.weight)
    fitted = np.linalg.lstsq(design * root[:, None], (evaluated.columns * root).T, rcond=None)[0]
    return (design @ fitted).T


def directly(models: Any, problem: BinaryProblem, kept: Any) -> float:
    """Return the estimate from all rows in memory, by the same models.

    The weight of full predictions depends on their gain on other parts, in standard errors of the
    sampled rows.
    """
    n = len(problem.labels)
    weight = np.ones(n) if problem.weights is None else problem.weights
    found, part = np.zeros((2, 2, n)), np.zeros(n, int)
    for evaluated in models.evaluate(problem):
        m, basis = len(evaluated.rows), evaluated.basis
        p = len(np.unique(basis.first)) + len(basis.values) - 1
        *a, r = evaluated.columns - means_given_the_score(evaluated)
        times = evaluated.kappa * m / (m - p)
        for stage, (a1, a2) in enumerate(zip(a[::2], a[1::2], strict=True)):
            added = times * (a1 + a2) / 2 * r, times * a1 * a2
            if evaluated.costs is not None:
                added = times * (a1 + a2) / 4 * r, evaluated.costs[stage]
            found[stage][:, evaluated.rows] = added
        part[evaluated.rows] = evaluated.part

    def z_score(values: Any, others: Any) -> float:
        """Return the mean over all other rows, in standard errors of the sampled ones."""
        sampled = others & kept
        share = weight[sampled] / weight[sampled].sum()
        deviation = share * (values[sampled] - share @ values[sampled])
        stderr = np.sqrt(deviation @ deviation * sampled.sum() / (sampled.sum() - 1))
        return float(np.average(values[others], weights=weight[others]) / stderr)

    more, total = found[1] - found[0], 0.0
    for k in range(3):
        here, others = part == k, part != k
        late = np.clip(z_score(2 * more[0] - more[1], others) / 2, 0, 1)
        length = np.clip(z_score(found[0, 0], others) / np.sqrt(2), 0, 1)
        cross, product = (found[0] + late * more)[:, here]
        total += float(weight[here] @ (2 * length * cross - length**2 * product))
    return total / float(weight.sum())


CASES: dict[str, dict[str, Any]] = {
    "plain": {"exclude": ["weight"]},
    "log": {"exclude": ["weight"], "rule": "log"},
    "weights": {"sample_weight": "weight"},
    "classwise": {"exclude": ["weight"], "score": ["no", "score"], "task": "classwise"},
    "repeats": {"exclude": ["weight"], "repeats": 2},
    "few scores": {"exclude": ["weight"], "score": "rounded"},
}


@pytest.mark.parametrize("case", CASES)
def test_the_estimate_equals_that_of_the_same_models_on_all_rows_in_memory(
    case: str, whole: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The features include categories, missing values, timestamps and single-precision floats."""
    score = whole["score"].to_numpy()
    rows = whole.append_column("no", pa.array(1 - score))
    rows = rows.append_column("rounded", pa.array(np.round(score, 1)))
    given = {"label": "label", "score": "score", **CASES[case]}
    used = given["score"]
    others = [name for name in ("no", "score", "rounded") if name not in used and name != used]
    given["exclude"] = [*given.get("exclude", []), *others]
    with monkeypatch.context() as patch:
        passed = Passed(patch, 6_000)
        result = epiloss.audit_table(rows, **given)
    assert passed.tally.n_rows == N
    given.pop("repeats", None)
    wanted = 0.0
    problems, kept = passed.problems(rows, **given)
    for repeats, problem in zip(passed.models, problems, strict=True):
        wanted += float(np.mean([directly(models, problem, kept) for models in repeats]))
    assert result.grouping_loss.value == pytest.approx(wanted, rel=1e-6)
    assert result.grouping_loss.value > 0.015


def test_top_labels_are_evaluated_with_their_class(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = MultiClass()
    sample = problem.sample(20_000)
    scores = {f"p{k}": sample.scores[:, k] for k in range(sample.scores.shape[1])}
    X = {f"x{j}": np.asarray(sample.X)[:, j] for j in range(np.asarray(sample.X).shape[1])}
    rows = pa.table({**X, **scores, "label": sample.y})
    given: dict[str, Any] = {"label": "label", "score": list(scores)}
    with monkeypatch.context() as patch:
        passed = Passed(patch, 6_000)
        result = epiloss.audit_table(rows, **given)
    ((models,),) = passed.models
    (one,), kept = passed.problems(rows, **given)
    assert one.claimed is not None
    assert result.task == "top-label"
    assert result.grouping_loss.value == pytest.approx(directly(models, one, kept), rel=1e-6)
    truth = problem.truth(task="top-label").grouping_loss
    assert 0.7 * truth < result.grouping_loss.value < 1.1 * truth


def test_rows_with_categories_that_the_sample_lacks_are_evaluated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One row in 1,000 has a city of its own, so that a sample of 3,000 contains about three of them."""
    g = np.random.default_rng(0)
    sample = Sigmoid(perturbation="step").sample(N)
    city = np.where(g.random(N) < 0.001, [f"village {i}" for i in range(N)], "town")
    rows = pa.table({"a": sample.X[:, 0], "city": city, "score": sample.scores, "label": sample.y})
    with monkeypatch.context() as patch:
        passed = Passed(patch, 3_000)
        result = epiloss.audit_table(rows, label="label", score="score")
        again = epiloss.audit_table(shuffled(rows), label="label", score="score")
    assert result.to_dict() == again.to_dict()
    assert passed.tally.twins[0].sums[0, 0].sum() == N * 2**20
    assert result.grouping_loss.value > 0.015


def _labelled(columns: dict[str, Any], labels: Any) -> Any:
    return pa.table({**columns, "label": labels.astype(int)})


def test_equal_rows_that_are_not_copies_are_divided_by_row_number_as_in_memory(tmp_path: Path) -> None:
    """32 distinct rows: the estimates differ by at most 4 times the larger standard error."""
    g = np.random.default_rng(0)
    few = {"a": g.integers(8, size=N), "score": g.choice([0.2, 0.4, 0.6, 0.8], N)}
    rows = _labelled(few, g.random(N) < few["score"] + 0.15 * np.sign(few["a"] - 3.5))
    result = audited(rows, exclude=[], **TWIN)
    assert "sampled-by-place" in [one["code"] for one in result["remarks"]]
    enough = audited(rows, exclude=[], memory="2GB", **TWIN)["grouping_loss"]
    found = result["grouping_loss"]
    assert abs(found["value"] - enough["value"]) < 4 * max(found["stderr"], enough["stderr"])
    for place, start in enumerate((0, 10_000)):
        part = rows.slice(start, 10_000 if place == 0 else None)
        parquet.write_table(part, tmp_path / f"{place}.parquet", row_group_size=9_000)
    assert audited(tmp_path, exclude=[], **TWIN) == result


def test_the_estimate_is_that_of_the_sample_if_rows_cannot_be_split() -> None:
    g = np.random.default_rng(0)
    few = {"a": g.integers(2, size=N), "score": np.full(N, 0.5), "id": np.arange(N)}
    rows = _labelled(few, g.random(N) < np.where(few["a"] == 0, 0.3, 0.7))
    result = audited(rows, exclude=[], row_id="id", memory="12MB", **TWIN)
    told = next(one["text"] for one in result["remarks"] if one["code"] == "sampled")
    assert "the estimate without bins and standard errors come from the sample" in told
    assert "on a sample of" in result["recommendation"]
    assert "evaluated on all" not in result["recommendation"]


# rows that fit into memory give the result of arrays


KINDS: dict[str, list[str]] = {
    "numbers": ["a"],
    "single floats": ["a", "b"],
    "whole numbers": ["a", "whole"],
    "categories": ["a", "city"],
    "missing values": ["a", "count"],
    "all": ["a", "b", "city", "count", "when", "whole"],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"rule": "log"}, {"sample_weight": "weight"}], ids=str)
def test_rows_that_fit_into_memory_give_the_result_of_arrays_in_any_order(
    kind: str, options: dict[str, Any], whole: Any, tmp_path: Path
) -> None:
    rows = whole.slice(0, 1_500)
    rows = rows.append_column("whole", pa.array(np.arange(1_500) % 7))
    names = KINDS[kind]
    columns = ["score", "label", *names, *(["weight"] if "sample_weight" in options else [])]
    parquet.write_table(rows.select(columns), tmp_path / "rows.parquet", row_group_size=400)
    found = epiloss.audit_table(tmp_path, label="label", score="score", **options)
    for order in (np.arange(1_500), np.random.default_rng(0).permutation(1_500)):
        some = rows.take(order)
        X = {name: some[name].to_numpy(zero_copy_only=False) for name in names}
        given = dict(options)
        if "sample_weight" in given:
            given["sample_weight"] = some["weight"].to_numpy()
        y, p = some["label"].to_numpy().astype(float), some["score"].to_numpy()
        assert epiloss.audit(y, p, X, **given).twin_estimate == found.twin_estimate


# standard errors and intervals


def _many(n: int, seed: int) -> Any:
    sample = Sigmoid(perturbation="step").sample(n, random_state=seed)
    X = np.asarray(sample.X)
    columns = {"a": X[:, 0], "b": X[:, 1], "score": sample.scores, "label": sample.y}
    return pa.table(columns)


def test_the_estimate_is_close_to_the_truth_and_more_rows_reduce_its_standard_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """12 draws of 100,000 rows, with samples of 5,000.

    Each estimate lies within 3.5 standard errors of their mean, and the mean is 0.85 to 1.02 times the
    truth. The part of the standard error that is due to evaluated rows is sqrt(5,000 / 100,000) = 0.22
    times that of an audit of the sample alone, within 15% on average. With the part that is due to
    training rows, the standard error is at most 0.45 times as large.
    """
    truth = Sigmoid(perturbation="step").truth().grouping_loss
    found, own, ratios = [], [], []
    Passed(monkeypatch, 5_000)
    for seed in range(12):
        rows = _many(100_000, seed)
        result = epiloss.audit_table(rows, label="label", score="score")
        assert result.details is not None
        (sample,) = binary_problems(result.details.problem, result.details.options.rule)
        assert sample.features is not None
        X = {"a": sample.features.column(0), "b": sample.features.column(1)}
        alone = epiloss.audit(sample.labels, sample.scores, X)
        found.append(result.grouping_loss)
        share = np.sqrt(len(sample.labels) / 100_000)
        variances = [one.influence["grouping_loss"].variance for one in (result, alone)]
        own.append(np.sqrt(variances[0] / variances[1]) / share)
        ratios.append((result.grouping_loss.stderr or 0.0) / (alone.grouping_loss.stderr or 1.0))
    values = np.array([one.value for one in found])
    errors = np.array([one.stderr for one in found], float)
    assert (np.abs(values - values.mean()) < 3.5 * errors).all()
    assert 0.85 * truth < values.mean() < 1.02 * truth
    assert 0.85 < np.mean(own) < 1.15
    assert np.mean(ratios) < 0.45
    assert 0.5 < errors.mean() / values.std(ddof=1) < 2.5


@pytest.mark.slow
def test_the_lower_limit_is_rarely_above_zero_without_a_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """60 draws of 100,000 rows, samples of 5,000: at most 12 one-sided limits of 95% are above 0.

    Only three models estimate the noise that more rows do not reduce, so that 10% are allowed: 12 are
    2.6 binomial standard errors more. At most 8 p-values are below 5%, 3 standard errors more.
    """
    Passed(monkeypatch, 5_000)
    above = rejected = 0
    for seed in range(60):
        g = np.random.default_rng(seed)
        X, score = g.normal(size=(100_000, 5)), g.uniform(0.1, 0.9, 100_000)
        columns = {f"x{j}": X[:, j] for j in range(5)}
        rows = pa.table({**columns, "score": score, "label": (g.random(100_000) < score).astype(int)})
        result = epiloss.audit_table(rows, label="label", score="score")
        above += bool((result.at_least or 0.0) > 0)
        rejected += (result.grouping_loss.pvalue or 0.0) < 0.05
    assert above <= 12
    assert rejected <= 8


def test_losses_add_up_and_memory_limits_only_the_sample(whole: Any) -> None:
    result = epiloss.audit_table(whole, label="label", score="score", exclude=["weight"], memory=SMALL)
    total = result.calibration_loss.value + result.grouping_loss.value + result.remainder.value
    assert total == pytest.approx(result.score.value)
    lengths = {len(one.contribution) for one in result.influence.values()}
    assert len(lengths) == 1
    assert result.remainder.stderr is not None
    assert "evaluated on all 30,000" in str(result)


def test_repeated_scores_keep_their_own_rates_beyond_memory(tmp_path: Path) -> None:
    """120 scores with rates of their own; learners find 0.012 of what splines alone miss."""
    g = np.random.default_rng(0)
    u, rates = g.random(60_000), g.uniform(0.2, 0.8, 120)
    place = (120 * u).astype(int)
    columns = {"u": u, "score": place / 120, "label": (g.random(60_000) < rates[place]).astype(int)}
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet")
    found = epiloss.audit_table(tmp_path / "rows.parquet", label="label", score="score", memory="16MB")
    assert abs(found.grouping_loss.value) < 0.0003
    assert (found.grouping_loss.pvalue or 0.0) > 0.05
