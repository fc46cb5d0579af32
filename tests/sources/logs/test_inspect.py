"""Logs of Inspect: archives and JSON alike, epochs as repeated labels or clusters, confidences."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epiloss
from language_model_logs import inspect_sample, inspect_samples, write_eval_log, write_json_log


def test_archives_and_json_are_read_alike(tmp_path: Path) -> None:
    samples = inspect_samples(120, 2)
    one = epiloss.read_log(write_eval_log(tmp_path / "a.eval", samples[::-1]))
    other = epiloss.read_log(write_json_log(tmp_path / "a.json", samples))
    assert one.table.equals(other.table)
    assert one.remarks == other.remarks


def test_epochs_are_repeated_labels_and_the_grouping_loss_is_measured(tmp_path: Path) -> None:
    """Half of the samples are right less often by 0.3 than others of the same confidence.

    The grouping loss is 0.15^2 = 0.0225, whatever features there are; the interval has it.
    """
    path = write_eval_log(tmp_path / "a.eval", inspect_samples(2_000, 5))
    result = epiloss.audit_table(path)
    assert result.method == "repeated labels"
    assert result.n_samples == 2_000
    loss = result.grouping_loss
    assert loss.low is not None
    assert loss.high is not None
    assert loss.low < 0.0225 < loss.high
    assert loss.stderr == pytest.approx(0.002, abs=0.001)
    assert result.irreducible_loss is not None


def test_epochs_of_differing_confidence_are_clusters(tmp_path: Path) -> None:
    path = write_eval_log(tmp_path / "a.eval", inspect_samples(150, 3, vary=True))
    log = epiloss.read_log(path)
    assert (log.clusters, log.repeated, log.table.num_rows) == ("sample", False, 450)
    result = epiloss.audit_table(path)
    assert result.method != "repeated labels"
    assert "each sample is a cluster" in " ".join(str(result).split())


def test_a_sample_that_lacks_an_epoch_has_fewer_labels(tmp_path: Path) -> None:
    samples = [one for one in inspect_samples(60, 3) if (one["id"], one["epoch"]) != ("s7", 2)]
    log = epiloss.read_log(write_json_log(tmp_path / "a.json", samples))
    rows = dict(zip(log.table["sample"].to_pylist(), log.table["correct"].to_pylist(), strict=True))
    assert sum(np.isnan(rows["s7"])) == 1
    assert sum(np.isnan(rows["s8"])) == 0


VALUES: dict[str, tuple[Any, Any]] = {
    "letters": ("C", "I"),
    "numbers": (1.0, 0.0),
    "truth": (True, False),
    "a record": ({"correct": True, "style": 3}, {"correct": False, "style": 3}),
}


@pytest.mark.parametrize("form", VALUES)
def test_scores_of_all_makes(form: str, tmp_path: Path) -> None:
    right, wrong = VALUES[form]
    samples = [inspect_sample(f"s{k}", 1, right if k % 3 else wrong, 0.5 + k / 100) for k in range(9)]
    log = epiloss.read_log(write_json_log(tmp_path / "a.json", samples))
    assert log.table["correct"].to_pylist() == [0, 1, 1] * 3


def _with_tokens(sample: dict[str, Any]) -> dict[str, Any]:
    tokens = [{"token": "A", "logprob": -0.5}, {"token": ".", "logprob": -0.25}]
    return {**sample, "output": {"choices": [{"logprobs": {"content": tokens}}]}}


PLACES: dict[str, Any] = {
    "scorer": (lambda one: one["scores"]["match"]["metadata"].update(prob=0.75), 0.75),
    "value": (
        lambda one: one["scores"]["match"].update(value={"accuracy": 1, "Confidence": 0.5}),
        0.5,
    ),
    "store": (lambda one: one["store"].update(p_true=0.25), 0.25),
    "metadata": (lambda one: one["metadata"].update(confidence=0.125), 0.125),
    "tokens": (lambda one: one.update(_with_tokens(one)), np.exp(-0.75)),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_confidence_is_looked_for_where_people_put_it(place: str, tmp_path: Path) -> None:
    sample = inspect_sample("s1", 1, "C", None)
    change, expected = PLACES[place]
    change(sample)
    log = epiloss.read_log(write_json_log(tmp_path / "a.json", [sample]))
    assert log.table["confidence"].to_pylist() == pytest.approx([expected])


def test_what_is_neither_right_nor_wrong_is_left_out_and_told(tmp_path: Path) -> None:
    samples = inspect_samples(20, 1)
    samples += [inspect_sample("half", 1, "P", 0.5), inspect_sample("none", 1, "odd", 0.5)]
    samples.append({**inspect_sample("failed", 1, "C", 0.5), "scores": {}})
    log = epiloss.read_log(write_json_log(tmp_path / "a.json", samples))
    assert log.table.num_rows == 20
    assert "no score: 2." in log.remarks[1]
    assert "neither correct nor incorrect: 1." in log.remarks[2]


def test_another_scorer_can_be_chosen(tmp_path: Path) -> None:
    samples = inspect_samples(10, 1)
    for one in samples:
        one["scores"]["other"] = {"value": "I", "metadata": {"confidence": 0.9}}
    path = write_json_log(tmp_path / "a.json", samples)
    assert set(epiloss.read_log(path, scorer="other").table["correct"].to_pylist()) == {0}
    with pytest.raises(epiloss.OptionError, match=r"scorer must be one of 'match', 'other', .* got 'x'"):
        epiloss.read_log(path, scorer="x")
    with pytest.raises(
        epiloss.OptionError, match="filter applies to samples of lm-evaluation-harness only"
    ):
        epiloss.read_log(path, filter="x")


def test_messages_are_read_as_the_text_of_the_user(tmp_path: Path) -> None:
    sample = inspect_sample("s1", 1, "C", 0.5)
    content = [{"type": "text", "text": "and this?"}, {"type": "image", "image": "x.png"}]
    sample["input"] = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "What is this"},
        {"role": "user", "content": content},
    ]
    log = epiloss.read_log(write_json_log(tmp_path / "a.json", [sample]))
    assert log.table["input"].to_pylist() == ["What is this\nand this?"]


def test_the_target_is_no_feature(tmp_path: Path) -> None:
    log = epiloss.read_log(write_json_log(tmp_path / "a.json", inspect_samples(5, 1)))
    assert "target" not in log.table.column_names


BAD: dict[str, tuple[Any, str]] = {
    "no confidence": (
        [inspect_sample("s1", 1, "C", None)],
        "sample 's1' .* must have a confidence, got none",
    ),
    "no samples": ([], "must have samples that are scored"),
    "no object": ([3], "must be a JSON object, got 3"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_read_is_told(what: str, tmp_path: Path) -> None:
    samples, message = BAD[what]
    with pytest.raises(epiloss.DataError, match=message):
        epiloss.read_log(write_json_log(tmp_path / "a.json", samples))


def test_damaged_archives_are_told(tmp_path: Path) -> None:
    path = write_eval_log(tmp_path / "a.eval", inspect_samples(30, 1), zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    at = content.index(b'"confidence"')
    content[at : at + 12] = b'"confidenxx"'
    path.write_bytes(bytes(content))
    with pytest.raises(epiloss.DataError, match="cannot be read: Bad CRC-32"):
        epiloss.read_log(path)


def test_an_archive_of_a_version_to_come_is_no_log(tmp_path: Path) -> None:
    path = write_eval_log(tmp_path / "a.eval", inspect_samples(30, 1))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 6] = 255  # the version that is needed to read it
    path.write_bytes(bytes(content))
    with pytest.raises(epiloss.DataError, match=r"logs must be samples of .* which is neither"):
        epiloss.read_log(path)


def test_a_folder_of_logs_reads_the_archives_alone(tmp_path: Path) -> None:
    write_eval_log(tmp_path / "a.eval", inspect_samples(20, 1))
    write_eval_log(tmp_path / "b.eval", inspect_samples(20, 1, seed=1))
    (tmp_path / "logs.json").write_text(json.dumps({"a.eval": {}}))
    log = epiloss.read_log(tmp_path)
    assert log.table.num_rows == 40
    assert len(set(log.table["log"].to_pylist())) == 2
