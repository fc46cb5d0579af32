"""Many small files are read in bundles: the same rows in the same order, in fewer and larger batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from epiloss.sources import bundles
from epiloss.sources.base import Source
from epiloss.sources.bundles import Bundle, bundled, single_parts
from epiloss.sources.tables import open_source

N_FILES, PER_FILE = 200, 7
COLUMNS = ["row", "city", "year"]


def write_files(folder: Path, ending: str = "parquet") -> Source:
    """Write files of 0 to 13 rows, in two folders that name a year, and open them."""
    sizes = np.random.default_rng(0).integers(0, 2 * PER_FILE, N_FILES)
    sizes[0], first = PER_FILE, 0
    for place, size in enumerate(sizes.tolist()):
        year = folder / f"year={2020 + 2 * place // N_FILES}"
        year.mkdir(exist_ok=True)
        row = np.arange(first, first + size, dtype=float) + 0.5
        rows = pa.table({"row": row, "city": pa.array([f"city {i:.0f}" for i in row], pa.string())})
        write = csv.write_csv if ending == "csv" else parquet.write_table
        write(rows, year / f"{place:03}.{ending}")
        first += size
    return open_source(folder)


def read(source: Source) -> Any:
    batches = [batch for part in source.parts for batch in part.batches(COLUMNS)]
    return pa.Table.from_batches(batches).combine_chunks()


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_bundles_hold_the_same_rows_in_the_same_order(ending: str, tmp_path: Path) -> None:
    given = write_files(tmp_path, ending)
    found = bundled(given)
    assert len(given.parts) == N_FILES
    assert 64 <= len(found.parts) <= N_FILES // 3 + 1
    assert [one.name for one in single_parts(found)] == [one.name for one in given.parts]
    assert read(found).equals(read(given))
    assert found.n_rows == given.n_rows
    assert sum(part.n_bytes or 0 for part in found.parts) == sum(
        part.n_bytes or 0 for part in given.parts
    )


def test_batches_of_a_bundle_are_joined_up_to_the_usual_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "_MIN_BUNDLES", 1)
    (whole,) = bundled(write_files(tmp_path)).parts
    assert isinstance(whole, Bundle)
    assert len(list(whole.batches(COLUMNS))) == 1
    monkeypatch.setattr(bundles, "batch_rows", lambda schema, columns: 100)
    sizes = [batch.num_rows for batch in whole.batches(COLUMNS)]
    assert sum(sizes) == whole.n_rows
    assert max(sizes) <= 100
    assert min(sizes[:-1]) > 100 - 2 * PER_FILE


def test_few_files_and_large_ones_are_read_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = write_files(tmp_path)
    few = Source(given.schema, given.parts[:127])
    assert bundled(few) is few
    monkeypatch.setattr(bundles, "_MAX_BYTES", 100)
    assert bundled(given).parts == list(given.parts)


def test_a_bundle_is_known_by_the_state_of_each_of_its_files(tmp_path: Path) -> None:
    before = [part.identity for part in bundled(write_files(tmp_path)).parts]
    assert len(set(before)) == len(before)
    path = tmp_path / "year=2020" / "004.parquet"
    table = parquet.read_table(path)
    parquet.write_table(pa.concat_tables([table, table]), path)
    after = [part.identity for part in bundled(open_source(tmp_path)).parts]
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1
