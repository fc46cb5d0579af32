"""Plain files of answers: columns of usual names are found, others must be named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import epiloss
from epiloss.sources.logs.names import CONFIDENCE, CORRECT
from forked_scripts import ForkedScripts
from language_model_logs import harness_lines, inspect_samples, write_eval_log, write_lines

N = 400
_g = np.random.default_rng(0)
P = _g.uniform(0.2, 1, N)
COLUMNS = {
    "question": [f"What is {k % 7} times {k % 11}?" for k in range(N)],
    "answer": [str(k % 13) for k in range(N)],
    "confidence": P,
    "correct": _g.random(N) < P,
}


def written(path: Path, columns: dict[str, object]) -> Path:
    table = pa.table(columns)
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    else:
        write_lines(path, table.to_pylist())
    return path


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_columns_are_found_by_their_usual_names(ending: str, tmp_path: Path) -> None:
    path = written(tmp_path / f"answers.{ending}", COLUMNS)
    found = epiloss.audit_table(path)
    named = epiloss.audit_table(path, label="correct", score="confidence")
    assert found.score == named.score
    assert found.grouping_loss == named.grouping_loss
    assert "label 'correct' and score 'confidence' found by the usual names" in str(found)


@pytest.mark.parametrize("name", ["Is Correct", "is-correct", "ACC", "exact_match"])
def test_case_and_signs_of_names_do_not_matter(name: str, tmp_path: Path) -> None:
    columns = {name if one == "correct" else one: values for one, values in COLUMNS.items()}
    result = epiloss.audit_table(written(tmp_path / "answers.csv", columns))
    assert f"label {name!r}" in str(result)


def test_one_that_is_named_is_taken_and_the_other_found(tmp_path: Path) -> None:
    columns = {**COLUMNS, "judge": _g.random(N) < P}
    result = epiloss.audit_table(written(tmp_path / "answers.csv", columns), label="judge")
    assert "score 'confidence' found by the usual name." in str(result)


@pytest.mark.parametrize("missing", ["correct", "confidence"])
def test_without_a_usual_name_the_option_is_asked_for(missing: str, tmp_path: Path) -> None:
    columns = {name: values for name, values in COLUMNS.items() if name != missing}
    option = "label" if missing == "correct" else "score"
    with pytest.raises(
        epiloss.OptionError, match=rf"{option} must be given if no column has a usual name"
    ):
        epiloss.audit_table(written(tmp_path / "answers.csv", columns))


def test_no_name_is_usual_for_both() -> None:
    assert not set(CORRECT) & set(CONFIDENCE)


def test_the_command_line_reads_all_of_them(tmp_path: Path, forked: ForkedScripts) -> None:
    answers = written(tmp_path / "answers.jsonl", COLUMNS)
    samples = write_lines(tmp_path / "samples_a.jsonl", harness_lines(200))
    log = write_eval_log(tmp_path / "a.eval", inspect_samples(100, 2))
    told = {
        answers: "found by the usual names",
        samples: "read as samples of lm-evaluation-harness",
        log: "read as a log of Inspect",
    }
    for path, words in told.items():
        done = forked.command("audit", str(path), "--json", "--method", "partition")
        assert done.returncode == 0, done.stderr
        assert any(words in one["text"] for one in json.loads(done.stdout)["remarks"])


def test_repaired_scores_of_a_log_have_the_names_of_its_columns(
    tmp_path: Path, forked: ForkedScripts
) -> None:
    samples = write_lines(tmp_path / "samples_a.jsonl", harness_lines(400, least=3, most=3))
    better = tmp_path / "better.csv"
    done = forked.command("audit", str(samples), "--repair", str(better))
    assert done.returncode == 0, done.stderr
    assert {f"p{k}_repaired" for k in range(3)} <= set(csv.read_csv(better).column_names)


def test_options_of_logs_need_one(tmp_path: Path, forked: ForkedScripts) -> None:
    answers = written(tmp_path / "answers.csv", COLUMNS)
    done = forked.command(
        "audit", str(answers), "--label", "correct", "--score", "confidence", "--scorer", "x"
    )
    assert done.returncode == 2
    assert "--scorer applies to logs of language models only" in done.stderr
