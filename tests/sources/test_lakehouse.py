"""Folders of Delta, Iceberg and Hudi tables: deleted rows are never read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import epiloss
from epiloss.sources.tables import open_source

N = 300
DELETED = "may be deleted in its log"
REASONS = {"Delta": DELETED, "Iceberg": DELETED, "Hudi": "is not supported"}
LOGS = {"Delta": "_delta_log/0.json", "Hudi": ".hoodie/hoodie.properties"}
LOGS |= {"Iceberg": "metadata/v1.metadata.json"}


def rows(seed: int) -> Any:
    g = np.random.default_rng(seed)
    score = g.random(N)
    label = (g.random(N) < score).astype(int)
    return pa.table({"y": label, "p": score, "x": g.random(N), "site": ["a", "b", "c"] * (N // 3)})


OLD, NEW = rows(0), rows(1)


def audit(source: Any) -> dict[str, Any]:
    return epiloss.audit_table(source, label="y", score="p", method="partition").to_dict()


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """Make a Delta table whose old rows are deleted, and whose new rows are in folders by site."""
    deltalake = pytest.importorskip("deltalake")
    folder = tmp_path / "delta"
    for table in (OLD, NEW):
        deltalake.write_deltalake(folder, table, mode="overwrite", partition_by=["site"])
    return folder


@pytest.fixture
def iceberg(tmp_path: Path) -> Any:
    """Make an Iceberg table whose old rows are deleted."""
    pytest.importorskip("pyiceberg")
    pytest.importorskip("sqlalchemy")
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("test", uri="sqlite:///:memory:", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("space")
    table = catalog.create_table("space.table", schema=OLD.schema)
    table.append(OLD)
    table.overwrite(NEW)
    yield table
    catalog.close()


def iceberg_folder(table: Any) -> Path:
    return Path(table.location().removeprefix("file://"))


def test_of_a_delta_folder_the_rows_that_count_are_audited(delta: Path) -> None:
    assert len(list(delta.rglob("*.parquet"))) == 6  # of which three are deleted
    assert audit(delta) == audit([str(delta)]) == audit(NEW)


def test_a_delta_table_and_its_data_set_are_audited_in_python(delta: Path) -> None:
    from deltalake import DeltaTable

    table = DeltaTable(delta)
    assert audit(table) == audit(table.to_pyarrow_dataset()) == audit(NEW)
    assert audit(DeltaTable(delta, version=0)) == audit(OLD)


def test_of_an_iceberg_folder_the_rows_that_count_are_audited(iceberg: Any) -> None:
    folder = iceberg_folder(iceberg)
    assert len(list(folder.rglob("*.parquet"))) == 2
    assert audit(folder) == audit(iceberg) == audit(NEW)


def test_rows_that_are_deleted_one_by_one_are_not_read(delta: Path, iceberg: Any) -> None:
    from deltalake import DeltaTable

    kept = NEW.filter(pa.compute.field("x") < 0.5)
    DeltaTable(delta).delete("x >= 0.5")
    iceberg.delete("x >= 0.5")
    assert audit(delta) == audit(iceberg_folder(iceberg)) == audit(kept)


def test_a_table_that_another_version_hints_at_is_read_in_that_version(iceberg: Any) -> None:
    folder = iceberg_folder(iceberg)
    (folder / "metadata" / "version-hint.text").write_text("1")
    assert audit(folder) == audit(OLD)


def test_metadata_of_which_two_may_count_are_refused(iceberg: Any) -> None:
    folder = iceberg_folder(iceberg)
    last = max(folder.glob("metadata/*.metadata.json"))
    (last.parent / (last.name[:6] + "other.metadata.json")).write_bytes(last.read_bytes())
    with pytest.raises(
        epiloss.DataError, match=r"one metadata file of the latest version, got 2.*catalog"
    ):
        audit(folder)


def test_a_table_that_was_moved_is_refused(iceberg: Any, tmp_path: Path) -> None:
    iceberg_folder(iceberg).rename(tmp_path / "moved")
    with pytest.raises(
        epiloss.DataError, match=r"must have all files in its log.* If the folder was moved"
    ):
        audit(tmp_path / "moved")


def test_a_log_that_leads_to_another_machine_is_refused(iceberg: Any) -> None:
    log = max(iceberg_folder(iceberg).glob("metadata/*.metadata.json"))
    log.write_text(log.read_text().replace('"manifest-list":"file://', '"manifest-list":"s3://bucket'))
    with pytest.raises(epiloss.DataError, match="must be on this machine, got 's3://bucket"):
        audit(iceberg_folder(iceberg))


def test_a_delta_file_that_is_gone_is_told(delta: Path) -> None:
    for file in delta.rglob("*.parquet"):
        file.unlink()
    with pytest.raises(
        epiloss.DataError,
        match=r"the Delta table .* must have all files in its log, got no .*\.parquet'",
    ):
        audit(delta)


def plain_folder(kind: str, folder: Path) -> Path:
    """Make a folder that looks like that of a table, with a file of rows."""
    (folder / LOGS[kind]).parent.mkdir(parents=True)
    (folder / LOGS[kind]).write_text("{}")
    (folder / "data").mkdir()
    parquet.write_table(OLD, folder / "data" / "rows.parquet")
    return folder


@pytest.mark.parametrize("kind", LOGS)
def test_files_of_a_table_are_not_read_past_its_log(kind: str, tmp_path: Path) -> None:
    folder = plain_folder(kind, tmp_path / "all" / "table")
    file, pattern = folder / "data" / "rows.parquet", folder / "*" / "*.parquet"
    for given in (file, pattern, folder / "data", folder.parent, [folder, folder], [file]):
        with pytest.raises(epiloss.DataError, match=f"{kind} table.*{REASONS[kind]}"):
            open_source(str(given) if isinstance(given, Path) else given)


def test_a_hudi_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(epiloss.DataError, match=r"is a Hudi table.*Write its rows to Parquet first"):
        audit(plain_folder("Hudi", tmp_path / "table"))


@pytest.mark.parametrize(("kind", "package"), [("Delta", "deltalake"), ("Iceberg", "pyiceberg")])
def test_without_its_package_a_table_is_refused(
    kind: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (package, *(one for one in sys.modules if one.startswith(f"{package}."))):
        monkeypatch.setitem(sys.modules, name, None)
    folder = plain_folder(kind, tmp_path / "table")
    extra = {"pyiceberg": "iceberg"}.get(package, package)
    words = rf"reading the {kind} table .*pip install 'epiloss\[{extra}\]'"
    with pytest.raises(epiloss.MissingExtraError, match=words):
        audit(folder)


@pytest.mark.parametrize(("kind", "package"), [("Delta", "deltalake"), ("Iceberg", "pyiceberg")])
def test_a_log_that_is_broken_is_told_in_one_sentence(kind: str, package: str, tmp_path: Path) -> None:
    pytest.importorskip(package)
    with pytest.raises(epiloss.DataError, match="cannot be read as a table") as caught:
        audit(plain_folder(kind, tmp_path / "table"))
    assert str(caught.value).isprintable()
