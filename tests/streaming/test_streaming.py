"""Data that are read in passes: the same bits however they come, and what breaks is said."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, dataset, feather, parquet

import epiloss
from epiloss.simulate import Sigmoid
from epiloss.streaming import file_parts, sampling, sources

N = 60_000
SMALL = "18MB"  # memory for a sample of about 13,000 rows


def table(n: int = N, seed: int = 0) -> Any:
    """Return rows with a category, a count with gaps, a moment and an irrelevant column."""
    g = np.random.default_rng(seed)
    sample = Sigmoid(perturbation="step").sample(n, random_state=seed)
    X = np.asarray(sample.X)
    count = g.integers(0, 9, n).astype(float)
    columns = {
        "a": X[:, 0],
        "b": X[:, 1].astype(np.float32),
        "city": g.choice(["Oslo", "Rom", "Wien"], n),
        "count": pa.array(count, mask=g.random(n) < 0.05),
        "when": np.datetime64("2026-01-01", "s") + 3600 * g.integers(0, 500, n),
        "weight": g.integers(1, 5, n) / 2,
        "score": sample.scores,
        "label": sample.y.astype(np.int64),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def whole() -> Any:
    return table()


@pytest.fixture(scope="module")
def folder(whole: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of four Parquet files of unequal length."""
    path = tmp_path_factory.mktemp("logs")
    ends = [0, 5_000, 20_000, 50_000, N]
    for place, (start, end) in enumerate(itertools.pairwise(ends)):
        part = whole.slice(start, end - start)
        parquet.write_table(part, path / f"part{place}.parquet", row_group_size=4_000)
    return path


def audited(X: Any, **options: Any) -> dict[str, Any]:
    """Return all numbers of an audit in little memory."""
    named = {"exclude": ["weight"], "memory": SMALL, **options}
    result = epiloss.audit_table(X, label="label", score="score", **named)
    return result.to_dict()


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, Any]:
    return audited(folder)


def shuffled(whole: Any) -> Any:
    return whole.take(np.random.default_rng(5).permutation(len(whole)))


def test_only_a_sample_is_kept_and_every_other_row_is_evaluated(expected: dict[str, Any]) -> None:
    assert expected["n_samples"] == N
    assert N - 8_000 < expected["n_evaluated"] < N - 4_000
    assert any("sample of" in remark for remark in expected["warnings"])


SHAPES: dict[str, Callable[[Any, Path], Any]] = {
    "pattern": lambda whole, folder: str(folder / "*.parquet"),
    "list": lambda whole, folder: sorted(folder.iterdir(), reverse=True),
    "table": lambda whole, folder: whole,
    "shuffled table": lambda whole, folder: shuffled(whole),
    "pandas": lambda whole, folder: whole.to_pandas(),
    "polars": lambda whole, folder: pl.from_arrow(whole),
    "lazy frame": lambda whole, folder: pl.scan_parquet(str(folder / "*.parquet")),
    "data set": lambda whole, folder: dataset.dataset(folder),
    "columns": lambda whole, folder: {name: whole[name] for name in whole.column_names},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_however_the_rows_come_the_result_has_the_same_bits(
    shape: str, whole: Any, folder: Path, expected: dict[str, Any]
) -> None:
    assert audited(SHAPES[shape](whole, folder)) == expected


def _csv(whole: Any, path: Path) -> None:
    # a text has as many digits as a number's own precision needs
    whole = whole.set_column(1, "b", whole["b"].cast(pa.float64()))
    with pa.output_stream(path) as stream:
        csv.write_csv(whole, stream)


def _stream(whole: Any, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, whole.schema) as writer:
        writer.write_table(whole, max_chunksize=7_000)


FORMATS: dict[str, Callable[[Any, Path], Any]] = {
    "x.csv": _csv,
    "x.csv.gz": _csv,
    "x.csv.zst": _csv,
    "x.arrow": lambda whole, path: feather.write_feather(whole, str(path), compression="lz4"),
    "x.stream": _stream,
    "x.parquet": lambda whole, path: parquet.write_table(whole, path, compression="zstd"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_bits(
    name: str, whole: Any, tmp_path: Path, expected: dict[str, Any]
) -> None:
    FORMATS[name](whole, tmp_path / name)
    found = audited(tmp_path / name)
    assert found == expected


@pytest.mark.parametrize("size", [1_000, 2**16])
def test_the_size_of_batches_does_not_matter(
    size: int, folder: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_BATCH_ROWS", size)
    assert audited(folder) == expected


def test_the_number_of_processes_does_not_matter(folder: Path, expected: dict[str, Any]) -> None:
    assert audited(folder, n_jobs=2) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"rule": "log"},
        {"sample_weight": "weight", "exclude": []},
        {"subgroups": "city"},
        {"features": []},
        {"features": ["a", "b"], "partition": "kmeans", "n_bins": 5},
        {"features": ["a", "b", "city"], "partition": "stump"},
        {"strategy": "quantile", "curve": "isotonic"},
        {"method": "crossfit", "features": ["a", "b"]},
        {"recalibrate": "isotonic", "method": "partition"},
        {"task": "classwise", "y_prob": ["no", "score"]},
        {"task": "joint", "y_prob": ["no", "score"], "features": ["a", "b"]},
    ],
    ids=str,
)
def test_options_work_beyond_memory_as_in_it_and_agree_with_all_rows_in_memory(
    options: dict[str, Any], whole: Any
) -> None:
    with_no = whole.append_column("no", pa.array(1 - whole["score"].to_numpy()))
    given = {"exclude": ["weight", "no"], "method": "partition", **options}
    scores = given.pop("y_prob", "score")
    given["exclude"] = [name for name in given["exclude"] if name not in scores]
    little = epiloss.audit_table(with_no, label="label", score=scores, memory=SMALL, **given)
    enough = epiloss.audit_table(shuffled(with_no), label="label", score=scores, memory="2GB", **given)
    assert little.n_samples == (enough.n_samples if given.get("task") != "joint" else little.n_samples)
    for loss in ("score", "calibration_loss", "grouping_loss", "remainder"):
        one, other = getattr(little, loss), getattr(enough, loss)
        spread = np.hypot(one.stderr or 0.0, other.stderr or 0.0)
        # regions are learned on fewer rows, so that the bound may be lower, by up to a fifth
        slack = 0.2 * abs(enough.grouping_loss.value) if loss in ("grouping_loss", "remainder") else 0.0
        assert abs(one.value - other.value) < 4 * spread + slack + 1e-6, loss
    assert little.to_html().startswith("<!DOCTYPE html>")


def test_what_fits_into_memory_is_audited_as_rows_in_memory_are(whole: Any) -> None:
    rows = whole.slice(0, 3_000)
    found = audited(rows, memory="2GB", features=["a", "b"])
    assert found == audited(shuffled(rows), memory="2GB", features=["a", "b"])
    X = {name: rows[name].to_numpy() for name in ("a", "b")}
    y, p = rows["label"].to_numpy(), rows["score"].to_numpy()
    in_memory = epiloss.audit(y, p, X)
    assert found["score"]["value"] == in_memory.score.value
    assert abs(found["grouping_loss"]["value"] - in_memory.grouping_loss.value) < 0.005


@pytest.mark.slow
def test_standard_errors_of_sampled_rows_are_those_of_all_rows() -> None:
    """Over 60 draws the intervals of score, calibration and grouping loss hold the mean 95% of the time.

    Of 60 draws, 51 (85%) is four binomial standard errors below 95%.
    """
    draws = [
        epiloss.audit_table(
            table(30_000, seed), label="label", score="score", memory=SMALL, features=["a", "b"]
        )
        for seed in range(60)
    ]
    for loss in ("score", "calibration_loss", "grouping_loss"):
        found = [getattr(one, loss) for one in draws]
        centre = np.mean([one.value for one in found])
        inside = sum(one.low <= centre <= one.high for one in found)
        assert inside >= 51, loss
        spread = np.std([one.value for one in found])
        typical = np.mean([one.stderr for one in found])
        assert 0.6 < typical / spread < 1.7, loss


# folders


def test_folders_name_columns_and_may_be_nested(whole: Any, tmp_path: Path) -> None:
    for city in ("Oslo", "Rom", "Wien"):
        rows = whole.filter(pa.compute.equal(whole["city"], city)).drop_columns(["city"])
        (tmp_path / f"city={city}" / "year=2026").mkdir(parents=True)
        parquet.write_table(rows, tmp_path / f"city={city}" / "year=2026" / "x.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    found = audited(tmp_path, exclude=["weight", "year"])
    assert found["score"] == audited(whole)["score"]
    assert found["n_evaluated"] == audited(whole)["n_evaluated"]


# what breaks


def _poisoned(whole: Any, row: int, column: str, value: Any) -> Any:
    values = whole[column].to_pylist()
    values[row] = value
    return whole.set_column(whole.column_names.index(column), column, pa.array(values))


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("score", float("nan"), "scores must not be missing"),
        ("score", 3.2, "scores must lie in [0, 1]"),
        ("label", None, "labels must not be missing"),
        ("a", float("inf"), "features must be missing, or finite"),
    ],
)
def test_a_poison_row_names_its_file_and_row(
    column: str, value: Any, words: str, whole: Any, tmp_path: Path
) -> None:
    parquet.write_table(whole.slice(0, 20_000), tmp_path / "a.parquet")
    bad = _poisoned(whole.slice(20_000, 20_000), 12_345, column, value)
    parquet.write_table(bad, tmp_path / "b.parquet", row_group_size=3_000)
    with pytest.raises(epiloss.DataError) as error:
        audited(tmp_path)
    assert words in str(error.value)
    assert f"row 12345 of {tmp_path / 'b.parquet'}" in str(error.value)


def test_a_missing_column_stops_before_reading(
    whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet.write_table(whole, tmp_path / "a.parquet")
    parquet.write_table(whole.drop_columns(["city"]), tmp_path / "b.parquet")
    monkeypatch.setattr(file_parts.FilePart, "batches", None)
    with pytest.raises(epiloss.DataError, match=r"b\.parquet lacks 'city'"):
        audited(tmp_path)
    with pytest.raises(epiloss.DataError, match="y_prob must name a column of the file, got 'scor'"):
        epiloss.audit_table(tmp_path / "a.parquet", label="label", score="scor")


def test_a_truncated_file_is_named(folder: Path, tmp_path: Path) -> None:
    bytes_ = (folder / "part1.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(bytes_[: len(bytes_) // 2])
    with pytest.raises(epiloss.DataError, match=r"cut\.parquet cannot be read"):
        audited(tmp_path)


def test_a_file_that_breaks_on_the_way_is_named_and_costs_no_checkpoint(
    folder: Path, tmp_path: Path, expected: dict[str, Any]
) -> None:
    logs, kept = tmp_path / "logs", tmp_path / "kept"
    logs.mkdir()
    for path in folder.iterdir():
        (logs / path.name).write_bytes(path.read_bytes())
    whole = (logs / "part2.parquet").read_bytes()
    broken = bytearray(whole)  # the end, which is read first, stays
    broken[1_000 : len(whole) // 2] = bytes(len(whole) // 2 - 1_000)
    (logs / "part2.parquet").write_bytes(broken)
    with pytest.raises(epiloss.DataError, match=r"part2\.parquet cannot be read"):
        audited(logs, checkpoint=kept)
    saved = {path.name: path.read_bytes() for path in kept.iterdir()}
    assert saved
    (logs / "part2.parquet").write_bytes(whole)
    assert audited(logs, checkpoint=kept) == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"memory": "plenty"}, "memory must be a size"),
        ({"memory": "1MB"}, "memory must hold a sample"),
        ({"engine": "abacus"}, "engine must be"),
        ({"subgroups": np.zeros(3)}, "groups must name a column too"),
        ({"display": 3}, "display must name columns too"),
        ({"features": ["nothing"]}, "features must name a column"),
    ],
    ids=str,
)
def test_options_that_mean_nothing_are_refused(given: dict[str, Any], words: str, whole: Any) -> None:
    with pytest.raises(ValueError, match=words):
        epiloss.audit_table(whole, label="label", score="score", **given)


def test_data_that_can_be_read_once_only_are_refused(whole: Any) -> None:
    with pytest.raises(epiloss.DataError, match="can be read once only"):
        audited(whole.to_reader())
    with pytest.raises(epiloss.OptionError, match="X must be the files or the table"):
        epiloss.audit_table(None, label="label", score="score")
    with pytest.raises(epiloss.DataError, match="with columns given by name, X must be"):
        audited(np.zeros((3, 2)))
    with pytest.raises(epiloss.DataError, match="no file"):
        audited("nowhere/*.parquet")


# rows that repeat, identifiers, clusters


def test_rows_that_repeat_are_sampled_by_place(tmp_path: Path) -> None:
    g = np.random.default_rng(0)
    few = {"a": g.integers(3, size=N), "score": g.choice([0.2, 0.5, 0.8], N)}
    few["label"] = (g.random(N) < few["score"] + 0.1 * (few["a"] - 1)).astype(int)
    rows = pa.table(few)
    result = epiloss.audit_table(rows, label="label", score="score", memory=SMALL)
    assert any("rows repeat themselves" in remark for remark in result.remarks)
    assert result.grouping_loss.value > 0.003
    for place, start in enumerate((0, 10_000)):
        part = rows.slice(start, 10_000 if place == 0 else None)
        parquet.write_table(part, tmp_path / f"{place}.parquet", row_group_size=9_000)
    assert (
        epiloss.audit_table(tmp_path, label="label", score="score", memory=SMALL).to_dict()
        == result.to_dict()
    )


def test_rows_are_told_apart_by_an_identifier_if_there_is_one(whole: Any) -> None:
    names = pa.array([f"row {i}" for i in range(N)])
    by_name = audited(whole.append_column("id", names), row_id="id")
    assert by_name == audited(shuffled(whole.append_column("id", names)), row_id="id")
    assert by_name["n_samples"] == N


def test_clusters_are_sampled_whole(whole: Any) -> None:
    cluster = pa.array(np.arange(N) // 5)
    rows = whole.append_column("user", cluster)
    result = epiloss.audit_table(
        rows, label="label", score="score", memory=SMALL, clusters="user", features=["a", "b"]
    )
    problem = result.details.problem if result.details else None
    assert problem is not None
    assert problem.clusters is not None
    assert (np.bincount(problem.clusters) == 5).all()
    assert any("clusters must be whole" in remark for remark in result.remarks)
    huge = whole.append_column("user", pa.array(np.arange(N) // 30_000))
    with pytest.raises(epiloss.DataError, match="clusters must be small"):
        epiloss.audit_table(huge, label="label", score="score", memory=SMALL, clusters="user")


def test_a_report_shows_sampled_rows_as_the_user_knows_them(whole: Any) -> None:
    names = pa.array([f"patient {i}" for i in range(N)])
    result = epiloss.audit_table(
        whole.append_column("who", names), label="label", score="score", memory="30MB", display="who"
    )
    evidence = result.details
    assert evidence is not None
    assert evidence.display is not None
    row = int(evidence.typical_rows(0)[0])
    assert evidence.display.texts(row) == {"who": f"patient {row}"}
    scores, _ = evidence.score_and_label(0, np.array([row]))
    assert scores[0] == whole["score"][row].as_py()


def test_a_repair_is_learned_from_the_sample(whole: Any) -> None:
    result = epiloss.audit_table(whole, label="label", score="score", memory=SMALL, features=["a", "b"])
    loop = result.repair()
    assert loop.differences["score"].value < 0
    assert set(loop.rows.tolist()) <= set(range(N))


def test_labels_of_any_kind_name_the_classes(whole: Any, tmp_path: Path) -> None:
    texts = pa.array(np.where(whole["label"].to_numpy() == 1, "yes", "no"))
    place = whole.column_names.index("label")
    named = whole.set_column(place, "label", texts)
    found = audited(named, pos_label="yes")
    assert found["options"]["classes"] == ["no", "yes"]
    assert found["grouping_loss"] == audited(whole)["grouping_loss"]
    turned = audited(named, pos_label="no")
    assert turned["score"]["value"] > found["score"]["value"]
    truth = whole.set_column(place, "label", pa.array(whole["label"].to_numpy() == 1))
    assert audited(truth)["grouping_loss"] == found["grouping_loss"]


def test_embeddings_in_lists_are_features(whole: Any, tmp_path: Path) -> None:
    X = np.column_stack([whole["a"].to_numpy(), whole["b"].to_numpy()]).astype(np.float32)
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), 2)
    free = pa.array(list(X))
    small = whole.select(["label", "score"])
    results = [audited(small.append_column("z", z), exclude=[]) for z in (fixed, free)]
    assert results[0] == results[1]
    assert results[0]["grouping_loss"]["value"] > 0.02
    parquet.write_table(small.append_column("z", fixed), tmp_path / "z.parquet")
    assert audited(tmp_path / "z.parquet", exclude=[]) == results[0]


def test_memory_bounds_the_sample_whatever_the_rows(whole: Any) -> None:
    sizes = []
    for memory in ("18MB", "30MB"):
        result = epiloss.audit_table(
            whole, label="label", score="score", memory=memory, exclude=["weight"]
        )
        assert result.details is not None
        sizes.append(len(result.details.problem.labels))
    assert sizes[0] < sizes[1] < N
    assert sampling.read_memory("1.5 GiB") == 3 * 2**29


def test_scores_outside_by_rounding_are_clipped_and_counted(whole: Any) -> None:
    scores = whole["score"].to_numpy().copy()
    scores[:3] = 1 + 1e-9
    place = whole.column_names.index("score")
    result = audited(whole.set_column(place, "score", pa.array(scores)))
    assert "3 scores outside [0, 1] by at most 1e-06 were clipped." in result["warnings"]


def test_progress_shows_rows_and_rate_on_a_terminal_only(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    audited(folder)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    audited(folder)
    shown = capsys.readouterr().err
    assert f"of {N:,} rows" in shown
    assert "/s" in shown
    assert "tally" in shown


def test_rows_without_a_cluster_are_refused_by_name(whole: Any) -> None:
    user = pa.array([None if i == 777 else i // 5 for i in range(N)])
    with pytest.raises(epiloss.DataError, match=r"clusters must not be missing.*'u' at row 777"):
        epiloss.audit_table(
            whole.append_column("u", user), label="label", score="score", clusters="u", memory=SMALL
        )


def test_rows_of_next_to_no_weight_are_left_out_with_a_remark(whole: Any) -> None:
    weight = np.ones(N)
    weight[5] = 1e12
    weight[6:20] = 1e-3
    rows = whole.set_column(whole.column_names.index("weight"), "weight", pa.array(weight))
    found = epiloss.audit_table(rows, label="label", score="score", sample_weight="weight", memory=SMALL)
    assert "rows of next to no weight beside the largest one, left out: 14." in found.remarks


def test_data_that_change_between_passes_are_refused(whole: Any) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    changing = duckdb.from_arrow(whole).filter("random() < 0.5")
    with pytest.raises(epiloss.DataError, match="the same each time they are read"):
        audited(changing)


def test_categories_of_other_packages_and_decimals_are_read(whole: Any) -> None:
    frame = pl.from_arrow(whole)
    assert isinstance(frame, pl.DataFrame)
    lazy = frame.with_columns(pl.col("city").cast(pl.Categorical)).lazy()
    assert audited(lazy) == audited(whole)
    place = whole.column_names.index("label")
    decimal = whole.set_column(place, "label", whole["label"].cast(pa.decimal128(19, 0)))
    assert audited(decimal)["grouping_loss"] == audited(whole)["grouping_loss"]


def test_folders_without_a_value_or_with_odd_ones_are_read(whole: Any, tmp_path: Path) -> None:
    names = ("k=1", "k=__HIVE_DEFAULT_PARTITION__", "k=--1")
    for place, name in enumerate(names):
        (tmp_path / name).mkdir()
        parquet.write_table(whole.slice(20_000 * place, 20_000), tmp_path / name / "x.parquet")
    assert audited(tmp_path, memory="30MB")["n_samples"] == N
    (tmp_path / "k=--1" / "x.parquet").rename(tmp_path / "x.parquet")
    assert audited(tmp_path, memory="30MB")["n_samples"] == N


def test_lists_that_are_no_embeddings_are_refused_in_words(whole: Any) -> None:
    texts = pa.array([["a", "b"]] * N)
    with pytest.raises(epiloss.DataError, match="'tags' must hold numbers, texts, moments or lists"):
        audited(whole.append_column("tags", texts))


def test_a_file_with_a_header_alone_has_no_say(whole: Any, tmp_path: Path) -> None:
    csv.write_csv(whole.slice(0, 2_000), tmp_path / "a.csv")
    csv.write_csv(whole.slice(0, 0), tmp_path / "b.csv")
    assert audited(tmp_path, memory="2GB", features=["a", "city"])["n_samples"] == 2_000


# a plan of regions


def test_a_plan_counts_batches_as_it_counts_them_together() -> None:
    learn, *batches = (Sigmoid(perturbation="step").sample(2_000, random_state=i) for i in range(4))
    plan = epiloss.RegionPlan.learn(learn.y, learn.scores, learn.X)
    stats = epiloss.RegionStats.empty(plan.name)
    for batch in reversed(batches):
        stats = stats.merge(plan.stats(batch.y, batch.scores, batch.X))
    together = [np.concatenate([getattr(one, name) for one in batches]) for name in ("y", "scores", "X")]
    whole = plan.stats(*together)
    np.testing.assert_array_equal(stats.sums, whole.sums)
    losses = plan.losses(stats)
    exact = Sigmoid(perturbation="step").truth()
    assert 0.7 * exact.grouping_loss < losses.total("grouping_loss") < 1.1 * exact.grouping_loss


def test_a_plan_says_what_it_cannot_count() -> None:
    one = Sigmoid().sample(500)
    plan = epiloss.RegionPlan.learn(one.y, one.scores, one.X)
    with pytest.raises(epiloss.DataError, match="labels must be among the classes"):
        plan.stats(one.y + 5, one.scores, one.X)
    with pytest.raises(epiloss.DataError, match="same number of rows"):
        plan.stats(one.y[:10], one.scores, one.X)
    with pytest.raises(epiloss.DataError, match="a plan needs X"):
        epiloss.RegionPlan.learn(one.y, one.scores, None)
    three = np.full((3, 3), 1 / 3)
    with pytest.raises(epiloss.OptionError, match="'binary' and 'top-label'"):
        epiloss.RegionPlan.learn([0, 1, 2], three, np.zeros((3, 1)), task="classwise")


# checkpoints


class _StopError(Exception):
    pass


def test_a_run_that_stopped_goes_on_and_ends_with_the_same_bits(
    folder: Path, tmp_path: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from epiloss.streaming.engines import local
    from epiloss.streaming.engines.base import finished

    done: list[str] = []

    def some(work: Any, part: Any, offset: int) -> Any:
        if work.name == "tally" and len([name for name in done if name == "tally"]) == 2:
            raise _StopError
        done.append(work.name)
        return finished(work, part, offset)

    monkeypatch.setattr(local, "finished", some)
    with pytest.raises(_StopError):
        audited(folder, checkpoint=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "census.checkpoint",
        "survey.checkpoint",
        "tally.checkpoint",
    ]
    counted: list[str] = []

    def rest(work: Any, part: Any, offset: int) -> Any:
        counted.append(work.name)
        return finished(work, part, offset)

    monkeypatch.setattr(local, "finished", rest)
    assert audited(folder, checkpoint=tmp_path) == expected
    assert counted == ["tally", "tally"]


def test_a_checkpoint_of_other_options_is_refused_and_one_that_is_broken_named(
    folder: Path, tmp_path: Path
) -> None:
    audited(folder, checkpoint=tmp_path)
    with pytest.raises(epiloss.OptionError, match="of a run with other options"):
        audited(folder, checkpoint=tmp_path, n_bins=10)
    path = tmp_path / "survey.checkpoint"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(epiloss.DataError, match=r"survey\.checkpoint.* cannot be read"):
        audited(folder, checkpoint=tmp_path)


def test_a_killed_command_goes_on_where_it_stopped(
    whole: Any, tmp_path: Path, expected: dict[str, Any]
) -> None:
    """The process is killed in the middle of its second pass, and started again."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for place in range(60):
        parquet.write_table(whole.slice(place * 1000, 1000), logs / f"{place:02}.parquet")
    command = [
        sys.executable, "-m", "epiloss", "audit", str(logs), "--label", "label", "--score", "score",
        "--exclude", "weight", "--memory", SMALL, "--checkpoint", str(tmp_path / "kept"), "--json",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    end = time.monotonic() + 120
    while not (tmp_path / "kept" / "survey.checkpoint").exists() and time.monotonic() < end:
        time.sleep(0.005)
    first.kill()
    first.communicate()
    assert first.returncode == -signal.SIGKILL  # it had not ended by itself
    assert not (tmp_path / "kept" / "tally.checkpoint").exists()
    second = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert json.loads(second.stdout)["grouping_loss"] == expected["grouping_loss"]
    assert json.loads(second.stdout)["score"] == expected["score"]


def test_a_worker_that_dies_does_not_end_the_run(
    whole: Any, tmp_path: Path, expected: dict[str, Any]
) -> None:
    """A process kills itself when it first meets a file; the file is done again."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for place in range(6):
        parquet.write_table(whole.slice(place * 10_000, 10_000), logs / f"{place}.parquet")
    script = f"""
import json, os, signal, epiloss
from epiloss.sources.files import FilePart
read = FilePart.batches
def batches(self, columns):
    mark = {str(tmp_path / "died")!r} + str(len(columns))
    if self.path.endswith("3.parquet") and not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    yield from read(self, columns)
class Deadly(FilePart):
    batches = batches
from epiloss.streaming import run
opened = run.open_source
def deadly(X):
    source = opened(X)
    parts = [Deadly(**vars(part)) for part in source.parts]
    return type(source)(source.schema, parts, source.widths)
run.open_source = deadly
result = epiloss.audit("label", "score", {str(logs)!r}, exclude=["weight"], memory={SMALL!r}, n_jobs=2)
print(json.dumps(result.to_dict()))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert len(list(tmp_path.glob("died*"))) == 2  # the census reads one column, the others seven
    assert json.loads(done.stdout) == json.loads(json.dumps(expected))


# what other packages and options do wrong


FRAMES: dict[str, tuple[Any, str]] = {
    "mixed types": (pd.DataFrame({"label": [0, 1], "score": [0.1, 0.9], "a": ["x", 1]}), "column a"),
    "complex numbers": (pd.DataFrame({"label": [0, 1], "score": [0.1, 0.9], "a": [1j, 2j]}), "complex"),
    "repeated names": (
        pd.DataFrame([[0, 0.1, 1.0, 2.0]], columns=["label", "score", "a", "a"]),
        "got 'a' twice",
    ),
    "a lazy frame without its file": (pl.scan_csv("nowhere.csv"), "nowhere"),
    "a lazy frame whose cast fails": (
        pl.LazyFrame({"label": ["0", "x"], "score": [0.1, 0.9]}).with_columns(pl.col("label").cast(int)),
        "conversion",
    ),
    "columns of unequal length": ({"label": [0, 1], "score": [0.1]}, "length"),
}


@pytest.mark.parametrize(("frame", "words"), FRAMES.values(), ids=FRAMES.keys())
def test_what_other_packages_refuse_is_told_in_a_sentence(frame: Any, words: str) -> None:
    with pytest.raises(epiloss.DataError, match=words) as caught:
        epiloss.audit_table(frame, label="label", score="score")
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith((".", "that."))


MEANINGLESS: dict[str, tuple[dict[str, Any], str]] = {
    "a feature that is the label": (
        {"features": ["label", "a"]},
        "features must not name the column of",
    ),
    "a weight that is the label": ({"sample_weight": "label"}, "sample_weight must not name the column"),
    "groups that are the label": (
        {"subgroups": "label"},
        "groups must not name the column of the labels",
    ),
    "an engine without its address": ({"engine": "dask:"}, "an address must follow the colon"),
}


@pytest.mark.parametrize(("options", "words"), MEANINGLESS.values(), ids=MEANINGLESS.keys())
def test_columns_and_engines_that_mean_nothing_are_refused(
    options: dict[str, Any], words: str, whole: Any
) -> None:
    with pytest.raises(epiloss.OptionError, match=words):
        epiloss.audit_table(whole, label="label", score="score", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "dask"},
        {"memory": "1GB"},
        {"checkpoint": "kept"},
        {"features": ["a"]},
        {"exclude": ["a"]},
        {"row_id": "id"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_arrays_refuse_what_only_named_columns_can_follow(options: dict[str, Any]) -> None:
    name = next(iter(options))
    with pytest.raises(epiloss.OptionError, match=f"{name} is for files and tables"):
        epiloss.audit([0, 1] * 20, [0.1, 0.9] * 20, np.arange(40.0), **options)


def test_arrays_beside_a_path_say_how_columns_are_named() -> None:
    with pytest.raises(epiloss.OptionError, match=r"audit\('label', 'score', 'data\.csv'\)"):
        epiloss.audit([0, 1] * 20, [0.1, 0.9] * 20, "data.csv")


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_a_repair_is_applied_to_a_folder_batch_by_batch_in_the_order_of_its_rows(
    ending: str, folder: Path, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from epiloss.repair.apply_table import repair_table
    from epiloss.sources.whole_files import read_file
    from epiloss.streaming import sources

    monkeypatch.setattr(sources, "_BATCH_ROWS", 3_000)
    names = ["a", "b", "city"]
    X = {name: whole[name].to_numpy(zero_copy_only=False) for name in names}
    y, scores = whole["label"].to_numpy(), whole["score"].to_numpy()
    repair = epiloss.RegionRecalibrator().fit(X, y, scores)
    output = tmp_path / f"better.{ending}"
    assert repair_table(repair, folder, ["score"], output) == N
    written = read_file(str(output))
    np.testing.assert_allclose(written["score_repaired"], repair.predict(X, scores), rtol=1e-12)
    assert [str(name).endswith("part1.parquet") for name in written["file"]].count(True) == 15_000
    np.testing.assert_array_equal(written["row"][:5_000], np.arange(5_000))


def test_a_repair_leaves_rows_without_a_score_without_one_and_names_a_wrong_one(
    whole: Any, tmp_path: Path
) -> None:
    from epiloss.repair.apply_table import repair_table

    some = whole.slice(0, 2_000).select(["a", "b", "score", "label"])
    scores = some["score"].to_numpy().copy()
    X = {"a": some["a"].to_numpy(), "b": some["b"].to_numpy()}
    repair = epiloss.RegionRecalibrator().fit(X, some["label"].to_numpy(), scores)

    def write(ending: str) -> Path:
        path = tmp_path / f"better.{ending}"
        repair_table(repair, some.set_column(2, "score", pa.array(scores)), ["score"], path)
        return path

    scores[7] = np.nan
    better = parquet.read_table(write("parquet"))["score_repaired"].to_pylist()
    assert [row for row, one in enumerate(better) if one is None] == [7]
    scores[9] = 73.0
    with pytest.raises(epiloss.DataError, match=r"got 73\.0 in column 'score' at row 9 of the table"):
        write("csv")


NAMES = np.array([f"customer {i}" for i in range(N)])


def test_names_of_rows_are_not_learned_from_unless_they_are_asked_for(
    whole: Any,
) -> None:
    some = whole.slice(0, 3_000).select(["a", "b", "city", "score", "label"])
    named = some.append_column("who", pa.array(NAMES[:3_000]))
    remark = "column 'who' has 3,000 texts in 3,000 rows, too many to learn from: left out."
    found = epiloss.audit_table(named, label="label", score="score", row_id="who", method="partition")
    other = epiloss.audit_table(named, label="label", score="score", method="partition")
    assert remark not in found.remarks
    assert remark in other.remarks
    assert "who" not in " ".join(map(str, other.regions["rule"]))
    X = {name: named[name].to_numpy(zero_copy_only=False) for name in ("a", "b", "city", "who")}
    y, p = some["label"].to_numpy(), some["score"].to_numpy()
    in_memory = epiloss.audit(y, p, X)
    assert remark in in_memory.remarks
    del X["who"]
    assert in_memory.grouping_loss == epiloss.audit(y, p, X).grouping_loss
    kept = epiloss.audit_table(
        named, label="label", score="score", features=["a", "who"], method="partition"
    )
    assert remark not in kept.remarks


def test_names_of_rows_are_left_out_beyond_memory_too(whole: Any) -> None:
    named = whole.append_column("who", pa.array(NAMES))
    found = audited(named, memory="25MB")
    assert any("column 'who' has" in one and "left out" in one for one in found["warnings"])
    assert found["n_evaluated"] > 20_000


def test_a_column_that_tells_the_label_is_remarked_on(whole: Any) -> None:
    some = whole.slice(0, 3_000).select(["a", "score", "label"])
    labels = some["label"].to_numpy()
    for leak in (labels * 5.0, np.array(["bad", "good"])[labels]):
        result = epiloss.audit_table(
            some.append_column("leak", pa.array(leak)), label="label", score="score"
        )
        assert any("column 'leak' tells the label of every row" in one for one in result.remarks)
    clean = epiloss.audit_table(some, label="label", score="score")
    assert not any("tells the label" in one for one in clean.remarks)


def test_rows_that_break_two_rules_are_not_counted_together(whole: Any) -> None:
    some = whole.slice(0, 1_000)
    labels = [None if i in (5, 700) else one for i, one in enumerate(some["label"].to_pylist())]
    weights = np.where(np.arange(1_000) % 100 == 3, -1.0, 1.0)
    place = {name: some.column_names.index(name) for name in ("label", "weight")}
    wrong = some.set_column(place["label"], "label", pa.array(labels))
    wrong = wrong.set_column(place["weight"], "weight", pa.array(weights))
    with pytest.raises(epiloss.DataError, match=r"labels must not be missing.* row 5 .*\(2 rows in all"):
        epiloss.audit_table(wrong, label="label", score="score", sample_weight="weight")


def test_copies_are_told_beside_a_column_of_names_in_memory_and_from_a_table(whole: Any) -> None:
    some = whole.slice(0, 1_000).select(["a", "b", "score", "label"])
    twice = pa.concat_tables([some, some]).append_column("who", pa.array(NAMES[:2_000]))
    X = {name: twice[name].to_numpy(zero_copy_only=False) for name in ("a", "b", "who")}
    for result in (
        epiloss.audit_table(twice, label="label", score="score", method="partition"),
        epiloss.audit(twice["label"].to_numpy(), twice["score"].to_numpy(), X, method="partition"),
    ):
        assert any("about 50% of the rows are copies" in one for one in result.remarks)
