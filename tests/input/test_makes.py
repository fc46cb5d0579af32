"""Arrays and tables of other packages at the door: read as NumPy's are, or refused in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import epiloss
from epiloss import DataError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
G = np.random.default_rng(0)
N = 500
X = G.normal(size=(N, 3))
P = G.random(N)
Y = (G.random(N) < P).astype(int)
NAMES = ["a", "b", "c"]
FRAME = pd.DataFrame(X, columns=NAMES)
TABLE = pa.Table.from_pandas(FRAME)


class Streamed:
    """A table or column that speaks Arrow's stream protocol alone."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.values.__arrow_c_stream__(requested_schema)


class Handed:
    """A batch or array that speaks Arrow's array protocol alone."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.values.__arrow_c_array__(requested_schema)


class Interchanged:
    """A table that speaks the data frame interchange protocol alone."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __dataframe__(self, *args: Any, **kwargs: Any) -> Any:
        return self.values.__dataframe__(*args, **kwargs)


class Plain:
    """Something that NumPy can read."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.values, dtype)


class Broken:
    """Something that says that NumPy can read it, and does not let it."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("the cluster is gone.\nTry again")


class BrokenStream:
    """Something that says that Arrow can read it, and does not let it."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        raise RuntimeError("the cluster is gone.\nTry again")


MAKES: dict[str, tuple[Any, Any, Any]] = {
    "streams": (Streamed(pa.chunked_array([Y])), Streamed(pa.chunked_array([P])), Streamed(TABLE)),
    "arrow arrays": (Handed(pa.array(Y)), Handed(pa.array(P)), Handed(TABLE.to_batches()[0])),
    "a table with one column": (Streamed(pa.table({"y": Y})), Streamed(pa.table({"p": P})), FRAME),
    "interchange": (Y, P, Interchanged(TABLE)),
}


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES.keys())
def test_whatever_arrow_can_read_is_read(make: tuple[Any, Any, Any]) -> None:
    expected = epiloss.audit(Y, P, FRAME)
    assert epiloss.audit(*make).to_dict() == expected.to_dict()


def test_whatever_numpy_can_read_is_read() -> None:
    expected = epiloss.audit(Y, P, X)
    assert epiloss.audit(Plain(Y), Plain(P), Plain(X)).to_dict() == expected.to_dict()


@pytest.mark.parametrize("broken", [Broken(), BrokenStream()], ids=["array", "stream"])
@pytest.mark.parametrize("what", ["y_true", "y_prob", "X"])
def test_what_cannot_be_read_is_an_error_in_one_line(broken: Any, what: str) -> None:
    data = {"y_true": Y, "y_prob": P, "X": X, what: broken}
    with pytest.raises(DataError) as caught:
        epiloss.audit(**data)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(f"{what} must be an array or a table, got a Broken")
    assert "the cluster is gone" in said
    assert "Convert it to a" in said


def test_a_column_that_cannot_be_read_is_named() -> None:
    with pytest.raises(DataError, match=r"column 'a' of X must be an array .* the cluster is gone"):
        epiloss.audit(Y, P, {"a": Broken(), "b": X[:, 1]})


def test_tensors_are_read_on_or_off_a_graph() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    expected = epiloss.audit(Y, P, X)
    y, p, x = torch.tensor(Y), torch.tensor(P, requires_grad=True), torch.tensor(X, requires_grad=True)
    assert epiloss.audit(y, p, x).to_dict() == expected.to_dict()
    assert epiloss.audit(y, p * 1, x * 1).to_dict() == expected.to_dict()
    both = torch.stack([1 - p, p], dim=1)
    assert epiloss.audit(y, both, x).score.value == pytest.approx(expected.score.value)
    repair = epiloss.RegionRecalibrator().fit(y, p, x)
    np.testing.assert_array_equal(repair.predict(p, x), repair.predict(P, X))
    named = epiloss.audit(y, p, {name: x[:, j] for j, name in enumerate(NAMES)})
    assert named.to_dict() == epiloss.audit(Y, P, FRAME).to_dict()


def test_tensors_of_half_precision_are_numbers_and_sparse_ones_are_refused() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    half = torch.tensor(X, requires_grad=True).to(torch.bfloat16)
    expected = epiloss.audit(Y, P, half.float().detach().numpy())
    assert epiloss.audit(Y, P, half).to_dict() == expected.to_dict()
    with pytest.raises(DataError, match="X must be an array or a table, got a Tensor"):
        epiloss.audit(Y, P, torch.tensor(X).to_sparse())


def test_relations_of_a_database_are_read() -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    scores = pd.DataFrame({"yes": P, "no": 1 - P})
    labels = pd.DataFrame({"y": np.where(Y == 1, "yes", "no")})
    expected = epiloss.audit(labels["y"], scores, FRAME)
    relations = [duckdb.from_df(one) for one in (labels, scores, FRAME)]
    assert epiloss.audit(*relations).to_dict() == expected.to_dict()
