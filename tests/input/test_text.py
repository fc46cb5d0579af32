"""Texts are features by their words, chosen without labels; names and categories stay what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyarrow import parquet

import epiloss
from epiloss.input.checks import read_problem
from epiloss.input.features import Features
from epiloss.input.text import (
    WORD,
    absence,
    are_texts,
    as_levels,
    frequent_words,
    text_of,
    word_name,
    words_of,
)
from epiloss.input.text_features import with_words

N = 3_000
FILL = ["the", "a", "of", "which", "who", "when", "first", "large", "river", "city", "king", "song"]


def questions(n: int, seed: int = 0) -> tuple[list[str], NDArray[np.bool_]]:
    """Return texts of 10 to 20 words, all different, and which of them say 'not'."""
    g = np.random.default_rng(seed)
    negated = g.random(n) < 0.3
    texts = []
    for place, one in enumerate(negated):
        words = list(g.choice(FILL, g.integers(10, 20)))
        if one:
            words[g.integers(len(words))] = "not"
        texts.append(f"{' '.join(words)}, number {place}?")
    return texts, negated


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    texts, negated = questions(N)
    g = np.random.default_rng(1)
    scores = g.uniform(0.3, 0.95, N)
    labels = (g.random(N) < scores - 0.25 * negated).astype(int)
    X = {"question": texts, "id": [f"q{k}" for k in range(N)], "level": g.integers(0, 5, N) * 1.0}
    return {"y": labels, "p": scores, "X": X, "negated": negated}


def test_segments_are_told_by_words(rows: dict[str, Any]) -> None:
    result = epiloss.audit(rows["y"], rows["p"], rows["X"])
    first = result.segments[0]
    assert first.description == "question contains 'not'"
    assert first.rows.tolist() == np.flatnonzero(rows["negated"]).tolist()
    assert result.grouping_loss.low is not None
    assert result.grouping_loss.low > 0
    assert "which of 13 frequent words" in str(result)
    assert "column 'id' has 3,000 distinct strings in 3,000 rows, too many" in str(result)


def test_without_texts_there_is_no_grouping_loss_to_see(rows: dict[str, Any]) -> None:
    other = {name: values for name, values in rows["X"].items() if name != "question"}
    low = epiloss.audit(rows["y"], rows["p"], other).grouping_loss.low
    assert low is not None
    assert low <= 0


def test_files_and_memory_have_the_same_words(rows: dict[str, Any], tmp_path: Path) -> None:
    table = pa.table({"y": rows["y"], "p": rows["p"], **rows["X"]})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=500)
    memory = epiloss.audit(rows["y"], rows["p"], rows["X"])
    files = epiloss.audit_table(tmp_path / "a.parquet", label="y", score="p")
    assert files.grouping_loss.value == pytest.approx(memory.grouping_loss.value, abs=1e-12)
    assert [one.description for one in files.segments] == [one.description for one in memory.segments]
    named = epiloss.audit_table(tmp_path / "a.parquet", label="y", score="p", features=["question"])
    assert named.segments[0].description == "question contains 'not'"


def test_data_beyond_memory_use_words_for_all_rows(tmp_path: Path) -> None:
    """30,000 rows, of which the sample holds about a third; the truth is 0.25^2 * 0.3 * 0.7."""
    n = 30_000
    texts, negated = questions(n)
    g = np.random.default_rng(1)
    p = g.uniform(0.3, 0.95, n)
    y = (g.random(n) < p - 0.25 * negated).astype(int)
    extra = {f"x{k}": g.random(n) for k in range(60)}
    table = pa.table({"y": y, "p": p, "question": texts, **extra})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=4_000)
    options = {"label": "y", "score": "p", "features": ["question", *list(extra)]}
    result = epiloss.audit_table(tmp_path / "a.parquet", memory="75MB", **options)  # type: ignore[arg-type]
    assert result.n_samples == n
    assert result.details is not None
    assert len(result.details.problem.labels) < n / 2  # a sample is kept
    truth = 0.25**2 * 0.3 * 0.7
    assert 0.8 * truth < result.grouping_loss.value < 1.2 * truth
    assert result.segments[0].description == "question contains 'not'"


def test_repairs_learn_from_words_and_are_saved_with_them(rows: dict[str, Any], tmp_path: Path) -> None:
    loop = epiloss.audit(rows["y"], rows["p"], rows["X"]).repair()
    assert loop.after.score.value < loop.before.score.value - 0.005
    loop.repair.save(tmp_path / "repair.json")
    loaded = epiloss.load_repair(tmp_path / "repair.json")
    texts, _ = questions(500, seed=5)
    X = {"question": texts, "level": np.zeros(500)}
    p = np.full(500, 0.6)
    assert loaded.predict(p, X).tolist() == loop.repair.predict(p, X).tolist()
    with pytest.raises(epiloss.DataError, match="got no column 'question'"):
        loaded.predict(p, {"level": np.zeros(500)})


def test_a_saved_repair_is_applied_to_a_file_with_the_text(rows: dict[str, Any], tmp_path: Path) -> None:
    from epiloss.repair.apply_table import repair_table

    loop = epiloss.audit(rows["y"], rows["p"], rows["X"]).repair()
    table = pa.table({"p": rows["p"], **rows["X"]})
    parquet.write_table(table, tmp_path / "new.parquet")
    repair_table(loop.repair, str(tmp_path / "new.parquet"), ["p"], tmp_path / "out.parquet")
    written = parquet.read_table(tmp_path / "out.parquet")["p_repaired"].to_numpy()
    assert written.tolist() == loop.repair.predict(rows["p"], rows["X"]).tolist()


def test_drift_holds_the_same_words_against_each_other(rows: dict[str, Any]) -> None:
    half = N // 2
    parts = [
        ({name: values[s] for name, values in rows["X"].items()}, rows["y"][s], rows["p"][s])
        for s in (slice(0, half), slice(half, N))
    ]
    (X, y, p), (other, then, later) = parts
    assert str(epiloss.drift((y, p, X), (then, later, other)))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["Ada King", "Bob Ray"], False),
        (["a1-22-x", "b7_44"], False),
        (["Which one is it?", "What is that one?"], True),
        (["2024-01-01 10:00", "2024-01-02 11:00"], False),
        ([], False),
    ],
)
def test_texts_are_told_from_names(values: list[str], expected: bool) -> None:
    assert are_texts(values) is expected


def test_few_texts_are_categories_whatever_their_length() -> None:
    g = np.random.default_rng(0)
    kinds = [f"a text of many words that says {k}" for k in range(8)]
    X = {"reason": g.choice(kinds, 500), "x": g.random(500)}
    problem = read_problem(g.integers(0, 2, 500), g.random(500), X)
    assert problem.features is not None
    assert problem.features.names == ("reason", "x")
    assert 0 in problem.features.categories


def test_words_do_not_depend_on_labels_or_the_order_of_rows() -> None:
    texts, _ = questions(400)
    g = np.random.default_rng(0)
    order = g.permutation(400)
    first = with_words(Features.read({"question": texts, "x": np.arange(400.0)}))
    other = with_words(
        Features.read({"question": [texts[k] for k in order], "x": np.arange(400.0)[order]})
    )
    assert first.words == other.words
    assert first.features is not None
    assert other.features is not None
    assert np.array_equal(first.features.matrix[order], other.features.matrix)


def test_a_word_is_frequent_if_at_least_20_rows_and_a_hundredth_have_it_and_lack_it() -> None:
    levels = [f"all of {'some' if k < 20 else 'none'} {'few' if k < 19 else ''}" for k in range(100)]
    assert frequent_words({"t": (levels, np.arange(100))}) == {"t": ("none", "some")}


def test_of_many_words_those_are_kept_that_part_rows_most_evenly() -> None:
    g = np.random.default_rng(0)
    words = np.array([f"w{chr(97 + k // 26)}{chr(97 + k % 26)}" for k in range(200)])
    share = np.linspace(0.02, 0.5, 200)
    has = g.random((2_000, 200)) < share
    levels = [" ".join(words[one]) for one in has]
    kept = frequent_words({"t": (levels, np.arange(2_000))})["t"]
    assert len(kept) == 100
    assert set(words[-80:]) <= set(kept)


def test_a_missing_text_has_no_words() -> None:
    texts: list[str | None] = list(questions(300)[0])
    texts[7] = None
    found = with_words(Features.read({"question": texts})).features
    assert found is not None
    assert found.matrix[7].tolist() == [0.0] * found.n_columns
    assert set(found.dtypes.values()) == {WORD}
    assert 0 not in found.dtypes  # the number of words


def test_a_long_text_does_not_widen_the_others() -> None:
    """An array of texts would be as wide as the longest: 3,000 x 4 MB."""
    texts = questions(3_000)[0]
    texts[0] = "word " * 200_000
    found = with_words(Features.read({"question": texts})).features
    assert found is not None
    assert found.n_rows == 3_000


@given(st.text())
def test_any_text_has_words_in_lower_case_that_name_features(text: str) -> None:
    for word in words_of(text):
        name = word_name(text, word)
        assert text_of(name) == (text, word)
        assert absence(name) == f"{text} does not contain '{word}'"


@given(st.lists(st.one_of(st.none(), st.text()), max_size=20))
def test_levels_give_the_values_back(values: list[str | None]) -> None:
    levels, codes = as_levels(values)
    assert [None if code < 0 else levels[code] for code in codes.tolist()] == values
    assert levels == sorted(set(levels))


def test_categories_with_many_rare_levels_are_kept_if_most_rows_have_a_frequent_one() -> None:
    """500 levels in 2,000 rows, of which 1,000 or 1,040 have one of 20 levels with 50 rows or more."""
    for n_frequent, expected in ((1_040, ("code", "x")), (1_000, ("x",))):
        level = np.r_[np.arange(n_frequent) % 20, 20 + np.arange(2_000 - n_frequent) % 480]
        codes = np.array([f"code {k}" for k in level], object)
        features = Features.read({"code": codes, "x": np.arange(2_000.0)})
        assert features.too_varied() == {"code": 500}
        found = with_words(features)
        assert found.features is not None
        assert found.features.names == expected
        assert found.left_out == ({} if "code" in expected else {"code": 500})


def test_a_loss_among_levels_of_very_different_size_is_found(tmp_path: Path) -> None:
    """500 levels with frequencies 1 / k in 4,000 rows: at least half of the loss, as for a file."""
    g = np.random.default_rng(0)
    frequency = 1 / np.arange(1, 501)
    level = g.choice(500, 4_000, p=frequency / frequency.sum())
    scores, effects = g.uniform(0.2, 0.8, 4_000), np.where(np.arange(500) % 2, 0.12, -0.12)
    y = (g.random(4_000) < scores + effects[level]).astype(int)
    codes = np.array([f"code {k}" for k in level], object)
    found = epiloss.audit(y, scores, {"code": codes})
    assert found.grouping_loss.value > 0.5 * 0.12**2
    columns = {"code": pa.array(codes), "score": scores, "label": y}
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet")
    other = epiloss.audit_table(tmp_path / "rows.parquet", label="label", score="score")
    assert other.grouping_loss.value == pytest.approx(found.grouping_loss.value, rel=0.05)


def test_strings_that_look_like_dates_are_left_out_with_a_hint() -> None:
    generator, n = np.random.default_rng(0), 500
    scores = generator.random(n)
    labels = (generator.random(n) < scores).astype(int)
    days = np.datetime64("2024-01-01") + np.arange(n)
    columns = {"day": days.astype(str), "who": [f"P{i}" for i in range(n)], "x": generator.random(n)}
    remarks = [
        str(one) for one in epiloss.audit(labels, scores, columns).remarks if "left out" in str(one)
    ]
    assert len(remarks) == 2
    assert remarks[0].endswith("They look like dates: convert the column to datetimes to use it.")
    assert "dates" not in remarks[1]


def test_texts_without_frequent_words_are_described() -> None:
    texts = np.array([f"https://example.org/{i}/page" for i in range(400)], object)
    found = with_words(Features.read({"page": texts}))
    assert found.words == {"page": ()}
    assert "its only feature is its number of words" in str(found.remarks(400)[0])
