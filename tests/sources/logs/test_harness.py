"""Samples of lm-evaluation-harness: probabilities of choices, right choices, and what no model has."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epiloss
from language_model_logs import harness_line, harness_lines, write_lines


def test_scores_are_the_softmax_of_the_log_likelihoods_and_missing_choices_are_0(tmp_path: Path) -> None:
    lines = [harness_line(0, [-1.0, -2.0, -3.0], 2), harness_line(1, [-0.5, -0.5], 0)]
    log = epiloss.read_log(write_lines(tmp_path / "samples_a.jsonl", lines))
    odds = np.exp([-1.0, -2.0, -3.0])
    p = np.column_stack([log.table.column(name).to_numpy() for name in log.score])
    assert p == pytest.approx(np.array([odds / odds.sum(), [0.5, 0.5, 0.0]]))
    assert log.table.column("target").to_pylist() == [2, 0]
    assert log.table.column("answer").to_pylist() == ["choice 0", "choice 0"]
    assert (log.task, log.classes) == ("top-label", (0, 1, 2))


def test_length_normalized_divides_by_the_characters_of_the_choice(tmp_path: Path) -> None:
    line = harness_line(0, [-4.0, -3.0], 0, choices=["four", "x"], acc=0.0, acc_norm=1.0)
    path = write_lines(tmp_path / "samples_a.jsonl", [line])
    plain, normalized = (
        epiloss.read_log(path, length_normalized=one).table.column("p0")[0].as_py()
        for one in (False, True)
    )
    assert plain == pytest.approx(1 / (1 + np.exp(1)))
    assert normalized == pytest.approx(1 / (1 + np.exp(-2)))  # -1 and -3 for each character


def test_an_audit_of_the_file_is_the_audit_of_its_arrays(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "samples_a.jsonl", harness_lines(400))
    result = epiloss.audit_table(path, exclude=["doc.question"])
    log = epiloss.read_log(path)
    p = np.column_stack([log.table.column(name).to_numpy() for name in log.score])
    features = ["doc.choices", "doc.topic", "doc.meta.year", "answer", "n_choices"]
    X = {name: np.array(log.table.column(name).to_pylist()) for name in features}
    y = log.table.column("target").to_numpy()
    direct = epiloss.audit(y, p, X, task="top-label", classes=range(4))
    assert result.task == "top-label"
    assert result.score.value == direct.score.value
    assert result.n_samples == 400
    assert "read as samples of lm-evaluation-harness: 400 questions with 3 to 4" in str(result)


def test_the_answer_key_is_no_feature_whatever_it_looks_like(tmp_path: Path) -> None:
    lines = harness_lines(50)
    for line in lines:
        gold, line_doc = int(line["target"]), line["doc"]
        line_doc["letter"] = "ABCD"[gold]
        line_doc["solution"] = f"word{gold}"
    log = epiloss.read_log(write_lines(tmp_path / "samples_a.jsonl", lines))
    assert not {"doc.answer", "doc.letter", "doc.solution"} & set(log.table.column_names)
    assert {"doc.topic", "doc.question"} <= set(log.table.column_names)
    assert any("answer key" in text and "'doc.letter'" in text for text in log.remarks)


TARGETS: dict[str, Callable[[int, list[str]], Any]] = {
    "places": lambda gold, choices: gold,
    "texts": lambda gold, choices: choices[gold],
    "lists": lambda gold, choices: [gold],
    "lists of texts": lambda gold, choices: [choices[gold]],
}


@pytest.mark.parametrize("form", TARGETS)
def test_targets_are_places_or_texts_of_choices(form: str, tmp_path: Path) -> None:
    """Texts that are numbers themselves, in another order: only the accuracies tell which is meant."""
    g = np.random.default_rng(0)
    choices, golds, lines = ["2", "0", "1"], g.integers(0, 3, 30).tolist(), []
    for place, gold in enumerate(golds):
        values = g.normal(size=3)
        right = float(values.argmax() == gold)
        target = TARGETS[form](gold, choices)
        lines.append(harness_line(place, values.tolist(), target, choices=choices, acc=right))
    log = epiloss.read_log(write_lines(tmp_path / "samples_a.jsonl", lines))
    assert log.table.column("target").to_pylist() == golds


def test_several_right_choices_are_audited_by_the_confidence(tmp_path: Path) -> None:
    lines = [harness_line(k, [-1.0, -2.0, -3.0], [0, 2] if k % 2 else [1, 2]) for k in range(6)]
    log = epiloss.read_log(write_lines(tmp_path / "samples_a.jsonl", lines))
    assert (log.label, log.score, log.task) == ("correct", ("confidence",), "binary")
    assert log.table.column("correct").to_pylist() == [0, 1] * 3


def test_where_targets_are_no_choices_the_accuracy_of_the_harness_is_the_label(tmp_path: Path) -> None:
    lines = [harness_line(k, [-1.0, -2.0], "the sentence", acc=float(k % 2)) for k in range(6)]
    log = epiloss.read_log(write_lines(tmp_path / "samples_a.jsonl", lines))
    assert log.table.column("correct").to_pylist() == [0, 1] * 3
    assert "labels are the accuracies of the harness" in log.remarks[0]


def test_one_filter_is_read_the_first_unless_another_is_named(tmp_path: Path) -> None:
    lines = [
        harness_line(k, [-1.0, -2.0] if name == "strict" else [-2.0, -1.0], 0, filter_name=name)
        for k in range(4)
        for name in ("strict", "loose")
    ]
    path = write_lines(tmp_path / "samples_a.jsonl", lines)
    first, second = epiloss.read_log(path), epiloss.read_log(path, filter="loose")
    assert first.table.num_rows == second.table.num_rows == 4
    assert set(first.table.column("answer").to_pylist()) == {"choice 0"}
    assert set(second.table.column("answer").to_pylist()) == {"choice 1"}
    assert "filter 'loose' of 'strict', 'loose'" in second.remarks[0]
    with pytest.raises(
        epiloss.OptionError, match=r"filter must be one of 'strict', 'loose', .* got 'other'"
    ):
        epiloss.read_log(path, filter="other")


def test_several_tasks_are_one_table_with_the_task_as_a_column(tmp_path: Path) -> None:
    stamp = "_2025-01-31T10-00-00.123"
    write_lines(tmp_path / f"samples_arc_easy{stamp}.jsonl", harness_lines(20))
    second = [{**line, "doc": {"passage": "Text"}} for line in harness_lines(10, seed=1, most=3)]
    write_lines(tmp_path / f"samples_boolq{stamp}.jsonl", second)
    (tmp_path / f"results{stamp}.json").write_text("{}")
    log = epiloss.read_log(tmp_path)
    assert log.table.column("task").to_pylist() == ["arc_easy"] * 20 + ["boolq"] * 10
    assert log.table.column("doc.passage").null_count == 20


def test_a_key_of_one_task_is_no_feature_of_another(tmp_path: Path) -> None:
    lines = harness_lines(40)
    others = [{**line, "target": str(line["doc"]["truth"])} for line in _with_truth(lines)]
    for line in others:
        line.pop("acc")
    write_lines(tmp_path / "samples_a.jsonl", lines)
    write_lines(tmp_path / "samples_b.jsonl", others)
    names = epiloss.read_log(tmp_path).table.column_names
    assert "doc.truth" not in names
    assert "doc.answer" not in names


def _with_truth(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**line, "doc": {**line["doc"], "truth": int(k % 3 > 0)}} for k, line in enumerate(lines)]


def test_mutual_information_doubles_the_requests_and_not_the_choices(tmp_path: Path) -> None:
    line = harness_line(0, [-1.0, -2.0, -9.0, -9.0], 1, acc=0.0, acc_mutual_info=1.0)
    log = epiloss.read_log(write_lines(tmp_path / "samples_a.jsonl", [line]))
    assert log.score == ("p0", "p1")


def test_compressed_samples_are_read(tmp_path: Path) -> None:
    text = "".join(json.dumps(line) + "\n" for line in harness_lines(30)).encode()
    (tmp_path / "samples_a.jsonl.gz").write_bytes(gzip.compress(text))
    assert epiloss.read_log(tmp_path / "samples_a.jsonl.gz").table.num_rows == 30


def test_named_columns_make_it_a_table_of_lines(tmp_path: Path) -> None:
    lines = [{**line, "conf": 0.3 + 0.001 * k} for k, line in enumerate(harness_lines(300))]
    path = write_lines(tmp_path / "samples_a.jsonl", lines)
    result = epiloss.audit_table(path, label="acc", score="conf", features=["doc.topic"])
    assert result.task == "binary"


GENERATED = {**harness_line(0, [-1.0, -2.0], 0), "filtered_resps": ["The answer is 4."]}
BAD: dict[str, tuple[list[dict[str, Any]], str]] = {
    "generated answers": (
        [GENERATED],
        r"line 1 .* choices, got the text 'The answer is 4.'",
    ),
    "one choice": ([harness_line(0, [-1.0], 0)], r"two or more choices, got 1 answer\."),
    "no number": ([harness_line(0, [-1.0, float("nan")], 0)], "numeric log-likelihoods"),
    "all impossible": ([harness_line(0, [-np.inf, -np.inf], 0)], "numeric log-likelihoods"),
    "no target": ([harness_line(0, [-1.0, -2.0], "none")], r"a target that is one of its 2 choices"),
    "a key is missing": (
        [harness_line(0, [-1.0, -2.0], 0), {"doc_id": 1, "doc": {}, "target": "0", "resps": []}],
        r"line 2 .* must have the field 'filtered_resps'",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_read_is_told_with_its_line(what: str, tmp_path: Path) -> None:
    lines, message = BAD[what]
    path = write_lines(tmp_path / "samples_a.jsonl", lines)
    with pytest.raises(epiloss.DataError, match=message):
        epiloss.read_log(path)


def test_an_option_of_the_other_kind_is_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "samples_a.jsonl", harness_lines(3))
    with pytest.raises(epiloss.OptionError, match="scorer applies to logs of Inspect only"):
        epiloss.read_log(path, scorer="match")


def test_a_file_that_is_no_log_is_told(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(epiloss.DataError, match=r"logs must be samples of .* which is neither"):
        epiloss.read_log(path)


def test_a_file_that_is_cut_off_is_told(tmp_path: Path) -> None:
    text = "".join(json.dumps(line) + "\n" for line in harness_lines(2_000)).encode()
    (tmp_path / "samples_a.jsonl.gz").write_bytes(gzip.compress(text)[:-2_000])
    with pytest.raises(epiloss.DataError, match="cannot be read: Truncated compressed stream"):
        epiloss.read_log(tmp_path / "samples_a.jsonl.gz")
