"""Data that are read in passes: the same bits however they come, and what breaks is said."""

from __future__ import annotations

import re
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
from epiloss._progress import stage, working
from epiloss.sources import base, files
from epiloss.streaming import sampling
from streaming_rows import SMALL, N, audited, shuffled, table


def test_only_a_sample_is_kept_and_every_other_row_is_evaluated(expected: dict[str, Any]) -> None:
    assert expected["n_samples"] == N
    assert N - 8_000 < expected["n_evaluated"] < N - 4_000
    assert [one["code"] for one in expected["remarks"]].count("sampled") == 1


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
    monkeypatch.setattr(base, "_BATCH_ROWS", size)
    assert audited(folder) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"rule": "log"},
        {"sample_weight": "weight", "exclude": []},
        {"subgroups": "city"},
        {"features": []},
        {"features": [], "subgroups": "city"},
        {"features": ["a", "b"], "partition": "kmeans", "n_bins": 5},
        {"features": ["a", "b", "city"], "partition": "stump"},
        {"strategy": "quantile", "curve": "isotonic"},
        {"method": "crossfit", "features": ["a", "b"], "memory": "13MB"},
        {"recalibrate": "isotonic", "method": "partition"},
        {"task": "classwise", "score": ["no", "score"]},
        {"task": "joint", "score": ["no", "score"], "features": ["a", "b"], "memory": "13MB"},
    ],
    ids=str,
)
def test_options_work_beyond_memory_as_in_it_and_agree_with_all_rows_in_memory(
    options: dict[str, Any], whole: Any
) -> None:
    """The losses of a sample and of all 30,000 rows differ by at most 4 standard errors.

    Regions are learned on fewer rows, so that the bound may besides be lower, by up to a fifth.
    """
    with_no = whole.append_column("no", pa.array(1 - whole["score"].to_numpy()))
    given = {"score": "score", "exclude": ["weight", "no"], "method": "partition", **options}
    given["exclude"] = [name for name in given["exclude"] if name not in given["score"]]
    memory = given.pop("memory", SMALL)
    little = epiloss.audit_table(with_no, label="label", memory=memory, **given)
    enough = epiloss.audit_table(shuffled(with_no), label="label", memory="2GB", **given)
    assert little.n_samples == (enough.n_samples if given.get("task") != "joint" else little.n_samples)
    assert little.region_source is enough.region_source
    assert list(little.subgroups) == list(enough.subgroups)
    for loss in ("score", "calibration_loss", "grouping_loss", "remainder"):
        one, other = getattr(little, loss), getattr(enough, loss)
        spread = np.hypot(one.stderr or 0.0, other.stderr or 0.0)
        slack = 0.2 * abs(enough.grouping_loss.value) if loss in ("grouping_loss", "remainder") else 0.0
        assert abs(one.value - other.value) < 4 * spread + slack + 1e-6, loss
    assert little.to_html().startswith("<!DOCTYPE html>")


def test_what_fits_into_memory_is_audited_as_rows_in_memory_are(whole: Any) -> None:
    rows = whole.slice(0, 3_000)
    named = {"memory": "2GB", "features": ["a", "b"], "method": "crossfit"}
    found = audited(rows, **named)
    assert found == audited(shuffled(rows), **named)
    X = {name: rows[name].to_numpy() for name in ("a", "b")}
    y, p = rows["label"].to_numpy(), rows["score"].to_numpy()
    in_memory = epiloss.audit(y, p, X, method="crossfit")
    assert found["score"]["value"] == in_memory.score.value
    assert abs(found["grouping_loss"]["value"] - in_memory.grouping_loss.value) < 0.005


def test_standard_errors_of_sampled_rows_are_those_of_all_rows() -> None:
    """Over 60 draws the intervals of score, calibration and grouping loss hold the mean 95% of the time.

    Of 60 draws, 51 (85%) is 3.5 binomial standard errors below 95%.
    """
    draws = [
        epiloss.audit_table(
            table(N, seed),
            label="label",
            score="score",
            memory=SMALL,
            features=["a", "b"],
            method="partition",
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
        ("a", float("inf"), "features must be finite"),
    ],
)
def test_a_poison_row_names_its_file_and_row(
    column: str, value: Any, words: str, whole: Any, tmp_path: Path
) -> None:
    parquet.write_table(whole.slice(0, 10_000), tmp_path / "a.parquet")
    bad = _poisoned(whole.slice(10_000, 20_000), 12_345, column, value)
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
    monkeypatch.setattr(files.FilePart, "batches", None)
    with pytest.raises(
        epiloss.DataError, match=r"got 'city' in .*a\.parquet, which .*b\.parquet does not have"
    ):
        audited(tmp_path)
    with pytest.raises(epiloss.DataError, match="score must name a column of the file, got 'scor'"):
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
        ({"memory": "1MB"}, "memory must be at least 16 MB for a sample"),
        ({"engine": "abacus"}, "engine must be"),
        ({"subgroups": np.zeros(3)}, r"subgroups must name a column, got ndarray\. For arrays use"),
        ({"display": 3}, "display must name a column, got int"),
        ({"features": ["nothing"]}, "features must name a column"),
    ],
    ids=str,
)
def test_options_that_mean_nothing_are_refused(given: dict[str, Any], words: str, whole: Any) -> None:
    with pytest.raises(ValueError, match=words):
        epiloss.audit_table(whole, label="label", score="score", **given)


def test_data_that_can_be_read_once_only_are_refused(whole: Any) -> None:
    with pytest.raises(
        epiloss.DataError, match="must be readable more than once, got a RecordBatchReader"
    ):
        audited(whole.to_reader())
    with pytest.raises(epiloss.DataError, match=r"source must be files, .* got NoneType"):
        audited(None)
    with pytest.raises(epiloss.DataError, match=r"got ndarray\. For arrays use epiloss\.audit"):
        audited(np.zeros((3, 2)))
    with pytest.raises(epiloss.DataError, match="no file"):
        audited("nowhere/*.parquet")


# rows that repeat, identifiers, clusters


def test_rows_that_repeat_are_sampled_by_place(tmp_path: Path) -> None:
    g = np.random.default_rng(0)
    few = {"a": g.integers(3, size=N), "score": g.choice([0.2, 0.5, 0.8], N)}
    few["label"] = (g.random(N) < few["score"] + 0.1 * (few["a"] - 1)).astype(int)
    rows = pa.table(few)
    result = audited(rows, exclude=[])
    assert "sampled-by-place" in [one["code"] for one in result["remarks"]]
    assert result["grouping_loss"]["value"] > 0.003
    for place, start in enumerate((0, 10_000)):
        part = rows.slice(start, 10_000 if place == 0 else None)
        parquet.write_table(part, tmp_path / f"{place}.parquet", row_group_size=9_000)
    assert audited(tmp_path, exclude=[]) == result


def test_rows_are_told_apart_by_an_identifier_if_there_is_one(whole: Any) -> None:
    names = pa.array([f"row {i}" for i in range(N)])
    by_name = audited(whole.append_column("id", names), row_id="id")
    assert by_name == audited(shuffled(whole.append_column("id", names)), row_id="id")
    assert by_name["n_samples"] == N


def test_clusters_are_sampled_whole(whole: Any) -> None:
    cluster = pa.array(np.arange(N) // 5)
    rows = whole.append_column("user", cluster)
    named = {"label": "label", "score": "score", "memory": SMALL, "clusters": "user"}
    result = epiloss.audit_table(rows, **named, features=["a", "b"], method="partition")
    problem = result.details.problem if result.details else None
    assert problem is not None
    assert problem.clusters is not None
    assert (np.bincount(problem.clusters) == 5).all()
    assert "sample-only" in [remark.code for remark in result.remarks]
    huge = whole.append_column("user", pa.array(np.zeros(N, int)))
    with pytest.raises(epiloss.DataError, match=r"clusters must fit into.* use subgroups= instead"):
        epiloss.audit_table(huge, **named)


def test_a_report_shows_sampled_rows_as_the_user_knows_them(whole: Any) -> None:
    names = pa.array([f"patient {i}" for i in range(N)])
    named = {"label": "label", "score": "score", "memory": "30MB", "method": "partition"}
    result = epiloss.audit_table(whole.append_column("who", names), **named, display="who")
    details = result.details
    assert details is not None
    assert details.display is not None
    row = int(details.typical_rows(0)[0])
    assert details.display.texts(row) == {"who": f"patient {row}"}
    scores, _ = details.score_and_label(0, np.array([row]))
    assert scores[0] == whole["score"][row].as_py()


def test_a_repair_is_learned_from_the_sample(whole: Any) -> None:
    named: dict[str, Any] = {"features": ["a", "b"], "memory": SMALL, "method": "partition"}
    loop = epiloss.audit_table(whole, label="label", score="score", **named).repair()
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
            whole, label="label", score="score", memory=memory, exclude=["weight"], method="partition"
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
    clipped = [one["text"] for one in result["remarks"] if one["code"] == "scores-clipped"]
    assert clipped == ["3 scores outside [0, 1] by at most 1e-06 were clipped."]


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
    assert "evaluating rows" in shown


def test_a_nested_call_gives_the_status_back(capsys: pytest.CaptureFixture[str]) -> None:
    with working("auditing", verbose=True):
        while "auditing" not in capsys.readouterr().err:  # a timer shows the status
            time.sleep(0.01)
        stage("writing a page")
        with working("searching for segments"):
            pass
    assert capsys.readouterr().err.splitlines() == [
        "epiloss: auditing: writing a page ...",
        "epiloss: searching for segments ...",
        "epiloss: auditing: writing a page ...",
    ]


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
    found = audited(rows, exclude=[], sample_weight="weight")
    told = [one["text"] for one in found["remarks"]]
    assert "rows left out because their weight is negligible: 14." in told


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
        parquet.write_table(whole.slice(10_000 * place, 10_000), tmp_path / name / "x.parquet")
    assert audited(tmp_path, memory="30MB")["n_samples"] == N
    (tmp_path / "k=--1" / "x.parquet").rename(tmp_path / "x.parquet")
    assert audited(tmp_path, memory="30MB")["n_samples"] == N


def test_lists_that_are_no_embeddings_are_refused_in_words(whole: Any) -> None:
    texts = pa.array([["a", "b"]] * N)
    with pytest.raises(epiloss.DataError, match="'tags' must hold numbers, strings, dates or lists"):
        audited(whole.append_column("tags", texts))


def test_a_file_with_a_header_alone_has_no_say(whole: Any, tmp_path: Path) -> None:
    csv.write_csv(whole.slice(0, 2_000), tmp_path / "a.csv")
    csv.write_csv(whole.slice(0, 0), tmp_path / "b.csv")
    assert audited(tmp_path, memory="2GB", features=["a", "city"])["n_samples"] == 2_000


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
    "an engine without its address": ({"engine": "dask:"}, "must have an address after the colon"),
}


@pytest.mark.parametrize(("options", "words"), MEANINGLESS.values(), ids=MEANINGLESS.keys())
def test_columns_and_engines_that_mean_nothing_are_refused(
    options: dict[str, Any], words: str, whole: Any
) -> None:
    with pytest.raises(epiloss.OptionError, match=words):
        epiloss.audit_table(whole, label="label", score="score", **options)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("bins", "audit_table has no option 'bins'. Did you mean 'n_bins'?"),
        ("groups", "Did you mean 'subgroups'?"),
        ("sample_wieght", "Did you mean 'sample_weight'?"),
        ("frobnicate", "Its options are task, rule, method"),
    ],
)
def test_an_unknown_option_is_told_with_the_one_that_may_be_meant(
    option: str, words: str, whole: Any
) -> None:
    with pytest.raises(epiloss.OptionError, match=re.escape(words)):
        audited(whole, **{option: 3})


def test_arrays_take_no_option_of_tables_and_no_path() -> None:
    rows = ([0, 1] * 20, [0.1, 0.9] * 20)
    for name in ("engine", "memory", "checkpoint", "features", "exclude", "row_id"):
        option: dict[str, Any] = {name: "a"}
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            epiloss.audit(*rows, np.arange(40.0), **option)
    with pytest.raises(epiloss.OptionError, match=r"use audit_table\('file\.parquet', label='label'"):
        epiloss.audit(*rows, "data.csv")


NAMES = np.array([f"customer {i}" for i in range(N)])


def test_names_of_rows_are_not_learned_from_unless_they_are_asked_for(
    whole: Any,
) -> None:
    some = whole.slice(0, 3_000).select(["a", "b", "city", "score", "label"])
    named = some.append_column("who", pa.array(NAMES[:3_000]))
    remark = "column 'who' has 3,000 distinct strings in 3,000 rows, too many to learn from, and was "
    remark += "left out."
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
    left_out = [one["text"] for one in found["remarks"] if one["code"] == "names-left-out"]
    assert len(left_out) == 1
    assert "column 'who' has" in left_out[0]
    assert found["n_evaluated"] > 20_000


def test_a_column_that_tells_the_label_is_remarked_on(whole: Any) -> None:
    some = whole.slice(0, 3_000).select(["a", "score", "label"])
    labels = some["label"].to_numpy()
    for leak in (labels * 5.0, np.array(["bad", "good"])[labels]):
        result = epiloss.audit_table(
            some.append_column("leak", pa.array(leak)), label="label", score="score"
        )
        assert any("column 'leak' determines the label of every row" in one for one in result.remarks)
    clean = epiloss.audit_table(some, label="label", score="score")
    assert not any("determines the label" in one for one in clean.remarks)


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
        assert any("about 50% of the rows are duplicates" in one for one in result.remarks)
