"""Cases of bad input and the answers to them, shared by the test and the processes that it starts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import epiloss

N = 400
G = np.random.default_rng(0)
A, B = G.normal(size=N), G.normal(size=N)
P = 1 / (1 + np.exp(-A))
Y = (G.random(N) < np.clip(P + 0.2 * np.sign(B), 0, 1)).astype(np.int64)
FIXED: dict[str, Any] = {"n_bins": 4, "method": "partition"}


@dataclass(frozen=True)
class Case:
    """What comes in, and what is to be answered: a refusal, a remark, or nothing but the numbers."""

    columns: Mapping[str, Any]
    says: tuple[str, ...] = ()
    refused: str = ""  # DataError or OptionError
    options: Mapping[str, Any] = field(default_factory=dict)
    scores: tuple[str, ...] = ("p",)
    like: str | None = None  # the case whose numbers are the same
    tolerance: float = 1e-12
    text: bytes = b""  # of a CSV file, instead of columns
    resplit: bool = False  # a table's rows are split by what they hold: other scores, other halves


def changed(values: Any, places: dict[int, Any]) -> Any:
    array = np.array(values, float)
    for place, value in places.items():
        array[place] = value
    return array


PLAIN = {"a": A, "b": B, "p": P, "y": Y}
TWO = {"a": A, "b": B, "p0": 1 - P, "p1": P, "y": Y}
KEPT = np.delete(np.arange(N), [150, 350])
WITHOUT = {name: part[KEPT] for name, part in PLAIN.items()}
NONE_LABEL = [None if i in (10, 390) else int(label) for i, label in enumerate(Y)]
LOGITS = {**PLAIN, "p": np.log(P / (1 - P))}
CITY = np.array(["Oslo", "Rom", None], object)[np.arange(N) % 3]

CASES = {
    "plain": Case(PLAIN),
    "two columns": Case(TWO, scores=("p0", "p1"), resplit=True, like="plain"),
    "without two rows": Case(WITHOUT),
    "missing score": Case(
        {**PLAIN, "p": changed(P, {150: np.nan, 350: np.nan})},
        ("scores must not be missing", "column 'p'", "row 150", "2 rows in all", "drop_missing=True"),
        "DataError",
    ),
    "missing label": Case(
        {**PLAIN, "y": NONE_LABEL},
        ("labels must not be missing", "column 'y'", "row 10", "2 rows in all", "drop_missing=True"),
        "DataError",
    ),
    "missing score, dropped": Case(
        {**PLAIN, "p": changed(P, {150: np.nan, 350: np.nan})},
        ("2 of 400 rows have no score or no label and were left out.",),
        options={"drop_missing": True},
        like="without two rows",
    ),
    "outside by rounding": Case(
        {**PLAIN, "p": changed(P, {5: 1 + 5e-7})}, ("1 scores outside [0, 1] by at most 1e-06",)
    ),
    "logits": Case(
        LOGITS,
        ("must lie in [0, 1]", "column 'p'", "row ", "look like logits", "logits=True"),
        "DataError",
    ),
    "logits, converted": Case(
        LOGITS, options={"logits": True}, resplit=True, like="plain", tolerance=1e-9
    ),
    "rows that do not sum to one": Case(
        {**TWO, "p1": changed(P, {7: P[7] + 0.1, 300: P[300] + 0.1})},
        ("must sum to 1", "'p0', 'p1'", "row 7", "2 rows in all", "Normalise"),
        "DataError",
        scores=("p0", "p1"),
    ),
    "half floats": Case(
        {**PLAIN, "p": P.astype(np.float16)}, resplit=True, like="plain", tolerance=1e-3
    ),
    "single floats": Case(
        {**PLAIN, "p": P.astype(np.float32)}, resplit=True, like="plain", tolerance=1e-6
    ),
    "signs": Case({**PLAIN, "y": 2 * Y - 1}, like="plain"),
    "truth values": Case({**PLAIN, "y": Y == 1}, like="plain"),
    "one-hot": Case({**TWO, "y": np.eye(2)[Y]}, scores=("p0", "p1"), resplit=True, like="plain"),
    "texts without a positive class": Case(
        {**PLAIN, "y": np.array(["no", "yes"])[Y]},
        ("when labels are strings and there is one score column, got labels 'no', 'yes'", "pos_label="),
        "OptionError",
    ),
    "texts with a positive class": Case(
        {**PLAIN, "y": np.array(["no", "yes"])[Y]}, options={"pos_label": "yes"}, like="plain"
    ),
    "one class": Case(
        {**PLAIN, "y": np.ones(N, int)},
        ("at least two classes", "1 in all 400 rows", "The score (brier) of these rows is 0."),
        "DataError",
    ),
    "constant scores": Case(
        {**PLAIN, "p": np.full(N, 0.3)}, ("all scores are 0.3: there is only one level set",)
    ),
    "copied rows": Case(
        {name: np.tile(part, 2) for name, part in PLAIN.items()},
        ("about 50% of the rows are duplicates of others", "intervals are too narrow"),
    ),
    "missing features": Case({**PLAIN, "a": changed(A, {3: np.nan, 333: np.nan})}),
    "infinite features": Case(
        {**PLAIN, "b": changed(B, {3: np.inf, 333: -np.inf})},
        ("got inf in column 'b'", "row 3", "2 rows in all", "numpy.nan"),
        "DataError",
    ),
    "texts as features": Case({**PLAIN, "city": CITY}),
}
LINES = [f"{a:.4f},{p:.4f},{y}".encode() for a, p, y in zip(A, P, Y, strict=True)]
HEADER = b"a,p,y"


def csv_case(lines: list[bytes], *says: str) -> Case:
    return Case({}, says, "DataError", text=b"\n".join(lines) + b"\n")


LATE = [HEADER, *200 * LINES]  # the beginning of a file tells the types of its columns
CAFE = "caf\xe9,0.5,1".encode("latin-1")
CASES |= {
    "CSV, text in a number column": csv_case(
        [HEADER, *LINES[:9], b"high,0.5,1", *LINES, b"low,0.5,1"],
        "column 'a' must hold numbers",
        "'high' at row 9",
        "2 rows in all",
    ),
    "CSV, text far down in a number column": csv_case(
        [*LATE, b"high,0.5,1", *LINES], "column 'a' of", "must hold numbers", "'high'", "line 80,002"
    ),
    "CSV, Latin-1": csv_case([HEADER, *LINES, CAFE], "UTF-8", "iconv -f LATIN1"),
    "CSV, repeated names": csv_case([b"a,a,y", *LINES], "distinct names", "'a' twice", "Rename"),
    "CSV, ragged": csv_case([HEADER, *LINES[:5], b"0.1,0.2", *LINES], "3", "got 2", "line 7"),
    "CSV, empty": Case({}, ("0.csv is empty",), "DataError", text=b"\n"),
    "CSV, header alone": csv_case([HEADER], "at least one row"),
}


def table_of(columns: Mapping[str, Any]) -> pa.Table:
    def array(values: Any) -> pa.Array:
        if np.ndim(values) == 2:
            flat = pa.array(np.asarray(values).reshape(-1))
            return pa.FixedSizeListArray.from_arrays(flat, np.shape(values)[1])
        return pa.array(values)

    return pa.table({name: array(values) for name, values in columns.items()})


def answer(run: Callable[[], epiloss.Audit]) -> dict[str, Any]:
    """Return what is answered: the numbers and the remarks, or the error."""
    try:
        result = run()
    except (epiloss.DataError, epiloss.OptionError) as error:
        kind = "DataError" if isinstance(error, epiloss.DataError) else "OptionError"
        return {"refused": kind, "text": str(error)}
    found: dict[str, Any] = json.loads(result.to_json())
    return found
