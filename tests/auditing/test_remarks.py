"""Remarks: sentences for people, with codes for programs, one for each kind of remark."""

from __future__ import annotations

import ast
import json
import pickle
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import epiloss
from epiloss.errors import Remark

PACKAGE = Path(epiloss.__file__).parent
G = np.random.default_rng(0)
N = 200
S = (1 + 2 * G.integers(0, 128, N)) / 256
Y = (G.random(N) < S).astype(int)
X = G.normal(size=(N, 2))
Y3, S3 = G.integers(0, 3, N), G.dirichlet(np.ones(3), N)
RARE = (np.arange(N) < 2).astype(int)


def audited(*data: Any, **options: Any) -> epiloss.Audit:
    return epiloss.audit(*data, **{"n_bins": 2, "method": "partition", **options})


CASES: dict[str, Callable[[], Any]] = {
    "task-chosen": lambda: audited(Y, S, X),
    "positive-class-chosen": lambda: audited(Y + 3, S, X),
    "class-order-chosen": lambda: audited(np.array(["a", "b", "c"])[Y3], S3, X),
    "pos-label-unused": lambda: audited(Y3, S3, X, pos_label=1),
    "no-features": lambda: audited(Y, S),
    "no-split": lambda: audited(Y, S, subgroups=np.zeros(N)),
    "one-level-set": lambda: audited(Y, 0.1 * S, X),
    "rare-outcome": lambda: audited(RARE, S, X),
    "few-labels": lambda: audited(RARE, S, X, rule="log"),
    "infinite-score": lambda: audited(Y, np.where(S > 0.5, 1.0, S), X, rule="log"),
    "constant-score": lambda: audited(Y, np.full(N, 0.5), X),
    "duplicate-rows": lambda: audited(np.tile(Y, 2), np.tile(S, 2), np.tile(X, (2, 1))),
    "label-leak": lambda: audited(Y, S, {"leak": Y, "x": X[:, 0]}),
    "empty-column": lambda: audited(Y, S, {"none": np.full(N, np.nan), "x": X[:, 0]}),
    "names-left-out": lambda: audited(Y, S, {"id": np.arange(N).astype(str), "x": X[:, 0]}),
    "uneven-weights": lambda: audited(Y, S, X, sample_weight=np.where(np.arange(N) < 5, 1e6, 1.0)),
    "weight-zero": lambda: audited(Y, S, X, sample_weight=np.arange(N) % 4),
    "weight-tiny": lambda: audited(Y, S, X, sample_weight=np.where(np.arange(N) < 9, 1e-30, 1.0)),
    "scores-clipped": lambda: audited(Y, np.where(np.arange(N) == 3, 1 + 1e-9, S), X),
    "logits-in-unit": lambda: audited(Y, S, X, logits=True),
    "rows-dropped": lambda: audited(Y, np.where(np.arange(N) == 3, np.nan, S), X, drop_missing=True),
    "index-order": lambda: audited(pd.Series(Y), pd.Series(S[::-1], index=range(N)[::-1]), X),
}


@pytest.mark.parametrize(("code", "result"), CASES.items(), ids=CASES.keys())
def test_what_is_remarked_on_has_its_code(code: str, result: Callable[[], Any]) -> None:
    remarks = result().remarks
    assert all(isinstance(one, Remark) for one in remarks)
    assert [one.code for one in remarks].count(code) == 1


def test_a_code_stands_for_one_kind_of_remark_however_the_numbers_differ() -> None:
    found: dict[str, set[str]] = {}
    for result in CASES.values():
        for one in result().remarks:
            words = re.sub(r"'.*'|[\d.,%]+", "…", one)  # without names and numbers
            found.setdefault(words, set()).add(one.code)
    assert len(found) >= len(CASES)
    assert all(len(codes) == 1 for codes in found.values())


def written_codes() -> list[str | None]:
    """Return the code of every remark that the source of the package makes; None if not a literal."""
    found: list[str | None] = []
    for path in PACKAGE.rglob("*.py"):
        if path.name == "errors.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "Remark"
            ):
                code = node.args[0]
                literal = isinstance(code, ast.Constant) and isinstance(code.value, str)
                found.append(str(code.value) if isinstance(code, ast.Constant) and literal else None)
    return found


def test_no_two_kinds_of_remarks_share_a_code() -> None:
    codes = written_codes()
    assert len(codes) >= len(CASES)
    assert None not in codes
    assert set(CASES) <= set(codes)
    assert [code for code, n in Counter(codes).items() if n > 1] == []
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", str(code)) for code in codes)


def test_a_remark_is_its_text_with_a_code_beside_it() -> None:
    remark = Remark("some-code", "some text.")
    assert remark == "some text."
    assert f"{remark}" == str(remark) == "some text."
    assert remark.to_dict() == {"code": "some-code", "text": "some text."}
    again = pickle.loads(pickle.dumps(remark))
    assert (again, again.code) == (remark, "some-code")


def test_saved_results_have_codes_and_texts() -> None:
    """Those of an audit, of its recalibrated and subgroups' audits, of a comparison and a drift."""
    result = audited(Y, S, X, recalibrate="isotonic", subgroups={"all": np.zeros(N)})
    assert result.recalibrated is not None
    plain = json.loads(result.to_json())
    pairs = [
        (result, plain),
        (result.recalibrated, plain["recalibrated"]),
        (result.subgroups["all"], plain["subgroups"]["all"]),
    ]
    compared = epiloss.compare(Y, {"one": S}, X, n_bins=2, method="partition")
    pairs.append((compared.audits["one"], json.loads(compared.to_json())["audits"]["one"]))
    for one, saved in pairs:
        assert saved["remarks"] == [{"code": note.code, "text": str(note)} for note in one.remarks]
        assert saved["remarks"]
    drifted = epiloss.drift((Y, S, X), (Y, S, X), n_bins=2)
    saved = json.loads(drifted.to_json())["remarks"]
    assert saved == [{"code": note.code, "text": str(note)} for note in drifted.remarks]
    assert [one["code"] for one in saved] == ["task-chosen"]
