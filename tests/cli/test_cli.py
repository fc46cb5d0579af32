"""The command line: results on the standard output, one line on the standard error for what is wrong."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import csv, feather, parquet

import epiloss
from epiloss.cli.main import cli, main
from epiloss.cli.options import CHOICES
from epiloss.estimation.options import METHODS
from epiloss.input.checks import TASKS
from epiloss.partition import Tree
from epiloss.sources.whole_files import read_file

N = 400
_generator = np.random.default_rng(0)
X = _generator.normal(size=(N, 2))
P = _generator.random(N)
Y = (_generator.random(N) < np.clip(P + 0.2 * np.sign(X[:, 0]), 0, 1)).astype(int)
SEX = np.where(X[:, 1] > 0, "f", "m")
COLUMNS: dict[str, Any] = {"y": Y, "p": P, "a": X[:, 0], "sex": SEX}
FAST = ("--n-bins", "4", "--method", "partition")  # where the estimate has no part in what is tested


@dataclass(frozen=True)
class Answer:
    """What a run of the command line leaves behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Answer]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*arguments: str, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "argv", ["epiloss", *arguments])
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        code: Any = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        said = capsys.readouterr()
        return Answer(int(code or 0), said.out, said.err)

    return run


def write(name: str, **columns: Any) -> str:
    """Write columns in the format that the name's ending asks for."""
    table = pa.table(columns)
    if name.endswith((".csv", ".csv.gz")):
        with pa.output_stream(name) as stream:
            csv.write_csv(table, stream)
    elif name.endswith(".parquet"):
        parquet.write_table(table, name)
    else:
        feather.write_feather(table, name)
    return name


@pytest.fixture
def data(in_an_empty_folder: None) -> str:
    return write("data.csv", **COLUMNS)


@pytest.mark.parametrize("name", ["d.csv", "d.csv.gz", "d.parquet", "d.arrow", "d.feather"])
def test_every_format_is_audited_alike_from_a_file_or_the_standard_input(name: str, run: Run) -> None:
    write(name, **COLUMNS)
    options = ("--label", "y", "--score", "p", *FAST, "--json")
    answer = run("audit", name, *options)
    assert answer.code == 0
    assert answer.err == ""
    expected = epiloss.audit_table(COLUMNS, label="y", score="p", n_bins=4, method="partition")
    assert json.loads(answer.out) == expected.to_dict()
    assert run("audit", "-", *options, stdin=Path(name).read_bytes()).out == answer.out


def test_an_npz_archive_brings_labels_scores_and_a_matrix(run: Run) -> None:
    np.savez("d.npz", y=Y, p=P, X=X)
    answer = run("audit", "d.npz", "--label", "y", "--score", "p", "--json")
    found, expected = json.loads(answer.out), epiloss.audit(Y, P, X).to_dict()
    # the rest depends on the order of the rows
    assert found["score"]["value"] == expected["score"]["value"]
    assert found["regions"].keys() == expected["regions"].keys()


def test_a_lone_value_in_an_archive_is_no_feature(run: Run) -> None:
    np.savez("d.npz", y=Y, p=P, X=X, version=np.array(3))
    np.savez("same.npz", y=Y, p=P, X=X)
    with_it, without = (
        run("audit", name, "--label", "y", "--score", "p", *FAST) for name in ("d.npz", "same.npz")
    )
    assert with_it.code == 0
    assert with_it.out == without.out


def test_the_ledger_goes_to_the_standard_output(data: str, run: Run) -> None:
    answer = run("audit", data, "--label", "y", "--score", "p", "--n-bins", "4")
    assert answer.code == 0
    assert answer.err == ""
    expected = str(epiloss.audit_table(COLUMNS, label="y", score="p", n_bins=4)) + "\n"
    assert answer.out == expected.replace("pass task= to change", "pass --task to change")


def test_columns_have_the_use_that_the_options_give_them(run: Run) -> None:
    columns = {**COLUMNS, "ward": np.arange(N) % 3}
    write("d.parquet", **columns)

    def numbers(*options: str) -> Any:
        answer = run("audit", "d.parquet", "--label", "y", "--score", "p", *FAST, "--json", *options)
        return json.loads(answer.out)

    def expected(**options: Any) -> Any:
        fast: dict[str, Any] = {"n_bins": 4, "method": "partition"}
        return epiloss.audit_table(columns, label="y", score="p", **fast, **options).to_dict()

    one = numbers("--feature", "a")
    assert one == numbers("--exclude", "sex", "--exclude", "ward") == expected(features=["a"])
    assert numbers("--feature", "a", "--feature", "sex") == expected(features=["a", "sex"])
    assert numbers("--subgroups", "sex") == expected(subgroups="sex")
    both = numbers("--subgroups", "sex", "--subgroups", "ward")
    assert both == expected(subgroups=["sex", "ward"])
    assert list(both["subgroups"]) == ["sex", "ward"]
    weighted = expected(features=["a"], sample_weight="p")
    assert numbers("--feature", "a", "--weight", "p") == weighted


def test_one_score_column_per_class(run: Run) -> None:
    write("d.csv", y=Y, no=1 - P, yes=P)
    two = run("audit", "d.csv", "--label", "y", "--score", "no", "--score", "yes", *FAST, "--json")
    one = run("audit", "d.csv", "--label", "y", "--score", "yes", "--exclude", "no", *FAST, "--json")
    assert json.loads(two.out)["score"] == json.loads(one.out)["score"]


def test_classes_name_the_score_columns_in_any_order(run: Run) -> None:
    write("d.csv", y=np.where(Y == 1, "yes", "no"), no=1 - P, yes=P)
    scores = [
        json.loads(
            run(
                "audit", "d.csv", "--json", "--label", "y",
                *(part for name in order for part in ("--score", name, "--class", name)),
            ).out
        )["score"]["value"]
        for order in (("no", "yes"), ("yes", "no"))
    ]  # fmt: skip
    assert scores[0] == pytest.approx(scores[1], abs=1e-10)


def test_pos_label_chooses_the_positive_class(run: Run) -> None:
    write("d.csv", y=np.where(Y == 1, "spam", "ham"), p=1 - P)
    answer = run("audit", "d.csv", "--label", "y", "--score", "p", "--pos-label", "ham", "--json")
    assert json.loads(answer.out)["score"]["value"] == pytest.approx(np.mean((P - Y) ** 2), abs=1e-10)


OPTIONS: dict[str, Any] = {
    "task": "top-label",
    "rule": "log",
    "n_bins": 3,
    "strategy": "quantile",
    "curve": "isotonic",
    "split": 0.4,
    "repeats": 2,
    "recalibrate": "sigmoid",
    "confidence_level": 0.9,
    "tolerance": 0.02,
}


@pytest.mark.parametrize(
    ("method", "switches", "partition"),
    [
        ("partition", ("--partition", "stump"), "stump"),
        ("partition", ("--region-ratio", "20"), Tree(20)),
        ("paper", ("--partition", "tree", "--region-ratio", "20"), Tree(20)),
    ],
    ids=["stump", "ratio", "paper"],
)
def test_all_options_of_an_audit_reach_it(
    method: str, switches: tuple[str, ...], partition: Any, data: str, run: Run
) -> None:
    given = {**OPTIONS, "method": method}
    words = [word for name, one in given.items() for word in (f"--{name.replace('_', '-')}", str(one))]
    answer = run(
        "audit", data, "--label", "y", "--score", "p", "--json", *words, *switches, "--seed", "5",
        "--jobs", "2",
    )  # fmt: skip
    expected = epiloss.audit_table(
        COLUMNS, label="y", score="p", **given, partition=partition, random_state=5
    )
    assert json.loads(answer.out) == expected.to_dict()


# output


def test_the_output_holds_the_json_and_is_overwritten_only_by_force(data: str, run: Run) -> None:
    command = ("audit", data, "--label", "y", "--score", "p", *FAST, "--output", "out.json")
    assert run(*command).code == 0
    first = Path("out.json").read_text()
    assert json.loads(first)["schema"] == 2
    refused = run(*command, "--seed", "1")
    assert refused.code == 2
    assert refused.out == ""
    assert "--force" in refused.err
    assert Path("out.json").read_text() == first
    assert run(*command, "--seed", "1", "--force").code == 0
    assert Path("out.json").read_text() != first
    assert sorted(path.name for path in Path().iterdir()) == ["data.csv", "out.json"]


def test_an_output_that_cannot_be_written_is_told_and_nothing_is_left(data: str, run: Run) -> None:
    answer = run("audit", data, "--label", "y", "--score", "p", "--output", "nowhere/out.json")
    assert answer.code == 4
    assert answer.out == ""
    assert "nowhere/out.json" in answer.err
    assert [path.name for path in Path().iterdir()] == ["data.csv"]


def test_the_notes_of_the_report_name_switches(data: str, run: Run) -> None:
    assert run("audit", data, "--label", "y", "--score", "p", *FAST, "--report", "page.html").code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "pass --task to change" in page
    assert "pass task=" not in page


def test_the_report_shows_the_rows_by_the_columns_asked_for(run: Run) -> None:
    names = np.array([f"patient <{i}>" for i in range(N)])
    write("data.csv", **COLUMNS, who=names)
    command = ("audit", "data.csv", "--label", "y", "--score", "p", *FAST)
    answer = run(*command, "--display", "who", "--report", "r.html")
    assert answer.code == 0
    page = Path("r.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "patient \\u003c" in page
    assert "patient <" not in page
    assert "who is" not in answer.out  # shown, and no feature
    assert run(*command, "--report", "r.html").code == 2
    assert Path("r.html").read_text() == page


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.arrow"])
def test_a_repair_is_measured_written_saved_and_applied(name: str, run: Run) -> None:
    write("data.csv", **COLUMNS)
    command = ("audit", "data.csv", "--label", "y", "--score", "p", *FAST)
    made = ("--repair", name, "--save-repair", "repair.json", "--repair-method", "regions")
    answer = run(*command, *made)
    assert answer.code == 0
    assert "difference" in answer.out
    fresh = read_file(name)
    assert list(fresh) == ["row", *COLUMNS, "p_repaired"]
    assert len(fresh["row"]) == N // 2
    assert run(*command, *made).code == 2
    applied = run("apply", "repair.json", "data.csv", "--score", "p", "--output", "all.csv")
    assert applied.code == 0
    again = run(
        "apply", "repair.json", "data.csv", "--score", "p", "--output", "all.csv", "--json", "--force"
    )
    assert json.loads(again.out) == {"schema": 1, "rows": N, "output": "all.csv"}
    everyone = read_file("all.csv")["p_repaired"]
    np.testing.assert_allclose(everyone[fresh["row"]], fresh["p_repaired"], rtol=1e-12)


@pytest.mark.parametrize("also", [False, True])
def test_a_repair_of_embeddings_is_applied_to_embeddings(also: bool, run: Run) -> None:
    matrix = np.stack([COLUMNS["a"], COLUMNS["a"] ** 2], axis=1)
    others = {"age": COLUMNS["a"]} if also else {}  # columns of the matrix are then e[0], e[1]
    np.savez("data.npz", y=COLUMNS["y"], p=P, e=matrix, **others)
    command = ("audit", "data.npz", "--label", "y", "--score", "p", *FAST)
    made = ("--repair", "out.csv", "--save-repair", "repair.json")
    assert run(*command, *made).code == 0
    np.savez("fresh.npz", p=P, e=matrix, **others)
    assert run("apply", "repair.json", "fresh.npz", "--score", "p", "--output", "all.csv").code == 0
    fresh, everyone = read_file("out.csv"), read_file("all.csv")["p_repaired"]
    np.testing.assert_allclose(everyone[fresh["row"]], fresh["p_repaired"], rtol=1e-12)


def test_a_repair_of_named_columns_takes_no_matrix_for_them(run: Run) -> None:
    write("data.csv", y=COLUMNS["y"], p=P, a=COLUMNS["a"])
    command = ("audit", "data.csv", "--label", "y", "--score", "p", *FAST)
    assert run(*command, "--save-repair", "repair.json").code == 0
    np.savez("other.npz", p=P, e=np.zeros((N, 1)))
    applied = run("apply", "repair.json", "other.npz", "--score", "p", "--output", "all.csv")
    assert applied.code == 4
    assert "'a'" in applied.err


def test_json_holds_the_repair_too(data: str, run: Run) -> None:
    command = ("audit", data, "--label", "y", "--score", "p", *FAST, "--json")
    plain = json.loads(run(*command, "--save-repair", "repair.json").out)
    losses = {"score", "calibration_loss", "grouping_loss", "remainder"}
    assert set(plain["repair"]["differences"]) == losses


def test_a_repair_that_does_not_fit_the_file_is_told(data: str, run: Run) -> None:
    command = ("audit", data, "--label", "y", "--score", "p", *FAST)
    assert run(*command, "--save-repair", "repair.json").code == 0
    write("other.csv", p=P)
    applied = run("apply", "repair.json", "other.csv", "--score", "p", "--output", "all.csv")
    assert applied.code == 4
    assert "'a'" in applied.err
    refused = run("apply", "data.csv", "other.csv", "--score", "p", "--output", "all.csv")
    assert refused.code == 4
    assert run("apply", "repair.json", data, "--score", "p", "--output", "all.xlsx").code == 2
    assert not Path("all.csv").exists()


# what is wrong

NAN = float("nan")
BAD_DATA: dict[str, tuple[dict[str, Any], str]] = {
    "nan score": ({"y": Y, "p": np.where(np.arange(N) == 3, NAN, P)}, "row 3"),
    "infinite score": (
        {"y": Y, "p": np.where(np.arange(N) == 3, np.inf, P)},
        "'p' at row 3 of d.parquet (1 row",
    ),
    "logits": ({"y": Y, "p": 6 * P - 3}, "pass --logits"),
    "one class": ({"y": np.ones(N), "p": P}, "two classes"),
    "no rows": ({"y": Y[:0], "p": P[:0]}, "at least one row"),
    "three labels": ({"y": np.arange(N) % 3, "p": P}, "at most 2"),
    "missing label": ({"y": [None, *Y[1:].tolist()], "p": P}, "missing"),
    "infinite feature": ({"y": Y, "p": P, "a": np.where(X[:, 0] > 2, np.inf, X[:, 0])}, "'a'"),
    "text scores": ({"y": Y, "p": ["high"] * N}, "'high'"),
    "unknown label column": ({"label": Y, "p": P}, "--label"),
    "unknown score column": ({"y": Y, "q": P}, "--score"),
}


@pytest.mark.parametrize(("columns", "words"), BAD_DATA.values(), ids=BAD_DATA.keys())
def test_bad_data_give_exit_code_4_one_line_and_no_output(
    columns: dict[str, Any], words: str, run: Run
) -> None:
    write("d.parquet", **columns)
    options = ("--label", "y", "--score", "p", "--n-bins", "3", "--output", "out.json")
    answer = run("audit", "d.parquet", *options)
    assert answer.code == 4
    assert answer.out == ""
    assert answer.err.startswith("epiloss: ")
    assert answer.err.count("\n") == 1
    assert words in answer.err
    assert not Path("out.json").exists()


@pytest.mark.parametrize("option", ["--feature", "--subgroups", "--weight", "--exclude"])
def test_every_option_that_names_an_unknown_column_gives_exit_code_4(
    option: str, data: str, run: Run
) -> None:
    answer = run("audit", data, "--label", "y", "--score", "p", option, "nothing")
    assert answer.code == 4
    assert option in answer.err
    assert "'nothing'" in answer.err


@pytest.mark.parametrize("choice", [("--pos-label", "1.0"), ("--class", "0.0", "--class", "1.0")])
def test_a_missing_label_is_no_class_even_when_classes_are_named(
    choice: tuple[str, ...], run: Run
) -> None:
    write("d.parquet", y=[1.0] * (N - 1) + [None], p=P)
    answer = run("audit", "d.parquet", "--label", "y", "--score", "p", *choice)
    assert answer.code == 4
    assert "missing" in answer.err


def test_missing_values_do_not_crash_kmeans(run: Run) -> None:
    write("d.parquet", y=Y, p=P, a=[None, *X[1:, 0].tolist()])
    for seed in ("0", "1", "2"):
        answer = run(
            "audit", "d.parquet", "--label", "y", "--score", "p", "--partition", "kmeans", "--seed", seed
        )
        assert answer.code == 4
        assert "'a'" in answer.err


@pytest.mark.parametrize(
    "content", [b"", b"y,p\n0,0.1\n1,0.2,3\n", b"PAR1 and no more", b"PK", b"\x1f\x8b"], ids=repr
)
def test_a_broken_file_gives_exit_code_4_and_one_line(content: bytes, run: Run) -> None:
    Path("broken").write_bytes(content)
    answer = run("audit", "broken", "--label", "y", "--score", "p")
    assert answer.code == 4
    assert answer.out == ""
    assert answer.err.count("\n") == 1
    assert "broken" in answer.err


def test_an_unknown_file_gives_exit_code_4(run: Run) -> None:
    answer = run("audit", "nowhere.csv", "--label", "y", "--score", "p")
    assert answer.code == 4
    assert "nowhere.csv" in answer.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit",),
        ("audit", "data.csv"),
        ("audit", "data.csv", "--label", "y"),
        ("audit", "data.csv", "--label", "y", "--score", "p", "--rule", "crps"),
        ("audit", "data.csv", "--label", "y", "--score", "p", "--n-bins", "many"),
        ("audit", "data.csv", "--label", "y", "--score", "p", "--n-bins", "0"),
        ("audit", "data.csv", "--label", "y", "--score", "p", "--n-bins", "0", "--task", "joint"),
        ("audit", "data.csv", "--label", "y", "--score", "p", "--split", "1"),
        ("audit", "data.csv", "--label", "y", "--score", "p", "--jobs", "0"),
        ("audit", "data.csv", "--label", "y", "--score", "p", "--pos-label", "maybe"),
        ("audit", "data.csv", "--label", "y", "--score", "p", "--unknown"),
        ("unknown",),
    ],
    ids=lambda arguments: " ".join(arguments[-2:]),
)
def test_wrong_usage_gives_exit_code_2_and_nothing_on_the_standard_output(
    arguments: tuple[str, ...], data: str, run: Run
) -> None:
    answer = run(*arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err
    assert "Traceback" not in answer.err


def test_what_a_file_names_its_columns_cannot_steer_the_terminal(run: Run) -> None:
    write("d.parquet", **{"y": Y, "p": P, "\x1b[31mred": X[:, 0]})
    answer = run("audit", "d.parquet", "--label", "zzz", "--score", "p")
    assert answer.code == 4
    assert answer.err.strip("\n").isprintable()


# the rest


def test_the_demo_prints_its_ledger_alone_on_the_standard_output(run: Run) -> None:
    answer = run("demo", "--n-bins", "5", "--method", "partition", "--json")
    assert answer.code == 0
    result = json.loads(answer.out)
    assert result["schema"] == 2
    assert result["n_samples"] == 20_000
    assert result["recalibrated"] is not None
    assert "Census-Income" in answer.err


def test_help_and_version_answer_on_the_standard_output(run: Run) -> None:
    for arguments in (("--help",), ("audit", "-h"), ("--version",)):
        answer = run(*arguments)
        assert answer.code == 0
        assert answer.out
        assert answer.err == ""


def test_the_command_line_asks_for_help_without_loading_numbers() -> None:
    code = (
        "import sys\nfrom epiloss.cli import cli\n"
        "cli.main(['audit', '--help'], standalone_mode=False)\nprint(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    assert not {"numpy", "sklearn", "pandas", "pyarrow", "matplotlib"} & set(done.stderr.split())


def test_a_column_of_clusters_is_no_feature_and_widens_the_intervals(run: Run) -> None:
    again = np.tile(np.arange(len(Y)), 2)
    np.savez("d.npz", y=Y[again], p=P[again], X=X[again], patient=again)
    options = ("audit", "d.npz", "--label", "y", "--score", "p", *FAST, "--json")
    told = json.loads(run(*options, "--clusters", "patient").out)
    blind = json.loads(run(*options, "--exclude", "patient").out)
    assert told["score"]["stderr"] > 1.3 * blind["score"]["stderr"]
    assert run(*options, "--clusters", "nobody").code == 4


def test_a_warning_is_one_line_without_the_code_that_it_came_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def warn(**_: Any) -> None:
        warnings.warn("the sky is cloudy", RuntimeWarning, stacklevel=1)

    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # put back afterwards
    monkeypatch.setattr(epiloss.cli.cli, "main", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        main()
        assert capsys.readouterr().err == "note: the sky is cloudy\n"


@pytest.mark.parametrize("option", ["--output", "--report", "--repair", "--save-repair"])
def test_what_is_read_is_never_written_over(option: str, data: str, run: Run) -> None:
    before = Path(data).read_bytes()
    answer = run("audit", data, "--label", "y", "--score", "p", option, data, "--force")
    assert answer.code == 2
    assert "outputs must not be inputs, got" in answer.err
    assert Path(data).read_bytes() == before


def test_a_repair_is_not_written_over_what_it_is_applied_to(data: str, run: Run) -> None:
    assert (
        run("audit", data, "--label", "y", "--score", "p", *FAST, "--save-repair", "repair.json").code
        == 0
    )
    for output in (data, "repair.json"):
        answer = run("apply", "repair.json", data, "--score", "p", "--output", output, "--force")
        assert answer.code == 2


def test_two_score_columns_are_repaired_under_their_own_names(run: Run) -> None:
    write("data.csv", **COLUMNS, q=1 - P)
    scores = ("--score", "q", "--score", "p")
    made = ("--repair", "out.csv", "--save-repair", "repair.json")
    assert run("audit", "data.csv", "--label", "y", *scores, *FAST, *made).code == 0
    assert run("apply", "repair.json", "data.csv", *scores, "--output", "all.csv").code == 0
    fresh, everyone = read_file("out.csv"), read_file("all.csv")
    assert list(fresh) == ["row", *COLUMNS, "q", "q_repaired", "p_repaired"]
    for name in ("q_repaired", "p_repaired"):
        np.testing.assert_allclose(everyone[name][fresh["row"]], fresh[name], rtol=1e-12)


def test_a_repair_of_logits_is_applied_to_logits(run: Run) -> None:
    logits = np.log(P / (1 - P))
    write("data.csv", **{**COLUMNS, "p": logits})
    command = ("audit", "data.csv", "--label", "y", "--score", "p", "--logits", *FAST)
    assert run(*command, "--repair", "out.csv", "--save-repair", "repair.json").code == 0
    applied = ("apply", "repair.json", "data.csv", "--score", "p", "--output", "all.csv")
    assert run(*applied).code == 4
    assert run(*applied, "--logits").code == 0
    fresh, everyone = read_file("out.csv"), read_file("all.csv")["p_repaired"]
    np.testing.assert_allclose(everyone[fresh["row"]], fresh["p_repaired"], rtol=1e-12)


def test_what_cannot_be_written_is_told_before_the_work(run: Run) -> None:
    command = ("audit", "no such file.csv", "--label", "y", "--score", "p")  # which would fail later
    answer = run(*command, "--save-repair", "nowhere/repair.json")
    assert (answer.code, "folder does not exist" in answer.err) == (4, True)


def test_a_repair_learns_from_features_and_subgroups(data: str, run: Run) -> None:
    command = ("audit", data, "--label", "y", "--score", "p", *FAST)
    made = ("--repair-method", "regions", "--repair", "out.csv", "--force")
    for others in ((), ("--exclude", "a")):  # without a, only the subgroups are left
        assert run(*command, "--subgroups", "sex", *others, *made).code == 0
        assert len(read_file("out.csv")["p_repaired"]) == N // 2
    alone = run(*command, "--exclude", "a", "--exclude", "sex", *made)
    assert alone.code == 2
    assert "a repair needs X or subgroups" in alone.err


@pytest.mark.parametrize("name", ["none.json", "data.csv"])
def test_what_is_no_repair_is_told_with_a_remedy(name: str, data: str, run: Run) -> None:
    answer = run("apply", name, data, "--score", "p", "--output", "all.csv")
    assert answer.code == 4
    assert "Name a file written by --save-repair" in answer.err
    assert "Errno" not in answer.err


def test_the_choices_of_options_are_those_of_the_python_call() -> None:
    assert tuple(CHOICES["method"]) == METHODS
    assert tuple(CHOICES["task"]) == TASKS
    two: Any = ([0, 1, 0, 1] * 9, [0.2, 0.7, 0.6, 0.9] * 9)
    three: Any = (
        [0, 1, 2, 1] * 9,
        [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.6, 0.2, 0.2], [0.2, 0.7, 0.1]] * 9,
    )
    for name in ("rule", "strategy", "partition", "curve", "recalibrate"):
        for choice in CHOICES[name]:
            given: dict[str, Any] = {name: choice}
            # one way to recalibrate is for several classes alone
            y, p = three if choice == "vector" else two
            epiloss.audit(y, p, np.arange(36.0), **given)


def test_subgroups_are_in_the_ledger(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    lines = [f"{k % 2},{(k % 7) / 7},{k % 5},{'ab'[k % 2]},{'xyz'[k % 3]}" for k in range(300)]
    file.write_text("\n".join(["y,p,age,sex,site", *lines]))
    options = ["--label", "y", "--score", "p", "--subgroups", "sex", "--subgroups", "site"]
    done = CliRunner().invoke(cli, ["audit", str(file), *options])
    assert done.exit_code == 0
    title = "Grouping loss between subgroups of "
    titles = [line for line in done.stdout.splitlines() if line.startswith(title)]
    assert [line.removeprefix(title).split(",")[0] for line in titles] == ["sex", "site"]
