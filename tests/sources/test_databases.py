"""Queries of database files: the same result as the same rows in memory, and nothing but reading."""

from __future__ import annotations

import _thread
import hashlib
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import epiloss
from epiloss.sources import databases
from epiloss.sources.databases import Query, open_query
from forked_scripts import ForkedScripts
from interrupts import heard_ctrl_c, restore_ctrl_c

N = 600
_g = np.random.default_rng(0)
P = _g.random(N)
COLUMNS: dict[str, Any] = {
    "y": (_g.random(N) < P).astype(int),
    "p": P,
    "x": _g.normal(size=N),
    "sex": np.where(_g.random(N) < 0.5, "f", "m"),
}
ALL = "SELECT y, p, x, sex FROM scored"


def audit(source: Any, **options: Any) -> dict[str, Any]:
    given = {"label": "y", "score": "p", "method": "partition", **options}
    return epiloss.audit_table(source, **given).to_dict()


def make_sqlite(path: Path, *more: str) -> Path:
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("CREATE TABLE scored (y INTEGER, p REAL, x REAL, sex TEXT, photo BLOB, mixed)")
        mixed, photo = [1, "two"] * (N // 2), [b"\0"] * N
        rows = zip(*(one.tolist() for one in COLUMNS.values()), photo, mixed, strict=True)
        opened.executemany("INSERT INTO scored VALUES (?, ?, ?, ?, ?, ?)", rows)
        for statement in more:
            opened.execute(statement)
        opened.commit()
    return path


def make_duckdb(path: Path, *more: str) -> Path:
    duckdb = pytest.importorskip("duckdb", reason="the extra 'duckdb' is not installed")
    with closing(duckdb.connect(str(path))) as opened:
        opened.register("given", pa.table(COLUMNS))
        opened.execute("CREATE TABLE scored AS SELECT * FROM given")
        for statement in more:
            opened.execute(statement)
    return path


MAKERS: dict[str, Callable[..., Path]] = {"sqlite": make_sqlite, "duckdb": make_duckdb}


@pytest.fixture(params=MAKERS)
def database(request: Any, tmp_path: Path) -> Path:
    return MAKERS[request.param](tmp_path / f"scores.{request.param}")


@pytest.fixture
def sqlite(tmp_path: Path) -> Path:
    return make_sqlite(tmp_path / "scores.db")


@pytest.fixture
def duckdb_file(tmp_path: Path) -> Path:
    return make_duckdb(tmp_path / "scores.duckdb")


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return audit(pa.table(COLUMNS))


def state(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


QUERIES = {
    "plain": ALL,
    "an end": f"{ALL};",
    "a comment": f"{ALL} -- every row",
    "a common table": f"WITH these AS ({ALL}) SELECT * FROM these",
    "another order": f"{ALL} ORDER BY x DESC",
}


@pytest.mark.parametrize("name", QUERIES)
def test_the_rows_of_a_query_give_the_bits_of_the_same_table(
    name: str, database: Path, expected: dict[str, Any]
) -> None:
    assert audit(database, sql=QUERIES[name]) == expected


def test_a_query_selects_rows(database: Path) -> None:
    some = pa.table({name: values[COLUMNS["sex"] == "f"] for name, values in COLUMNS.items()})
    assert audit(database, sql=f"{ALL} WHERE sex = 'f'") == audit(some)


def test_rows_come_in_batches_of_the_usual_size(
    database: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "batch_rows", lambda *_: 64)
    monkeypatch.setattr(databases, "_FETCHED_ROWS", 16)
    (part,) = open_query(Query(str(database), ALL)).parts
    sizes = [batch.num_rows for batch in part.batches(["y", "p"])]
    assert sum(sizes) == N
    assert len(sizes) > 1
    assert audit(database, sql=ALL) == expected
    if database.suffix == ".sqlite":  # DuckDB's own blocks of 2,048 rows are not cut
        assert max(sizes) <= 64


def test_long_texts_make_small_batches(sqlite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "_BATCH_BYTES", 2**20)
    sql = "SELECT y, p, hex(zeroblob(20000)) AS long FROM scored"
    (part,) = open_query(Query(str(sqlite), sql)).parts
    assert max(batch.nbytes for batch in part.batches(["long"])) < 2**20 + 256 * 40_100


def test_every_reading_gives_the_rows_in_one_order_whatever_columns_are_read(database: Path) -> None:
    (part,) = open_query(Query(str(database), f"{ALL} WHERE x > 0")).parts
    whole = pa.Table.from_batches(list(part.batches(["x", "y", "p"])))
    for name in ("x", "y", "p"):
        alone = pa.Table.from_batches(list(part.batches([name])))
        assert alone.column(name).equals(whole.column(name))


def test_a_sample_of_duckdb_is_the_same_each_time(duckdb_file: Path) -> None:
    (part,) = open_query(Query(str(duckdb_file), f"{ALL} USING SAMPLE 300")).parts
    first, second = (pa.Table.from_batches(list(part.batches(["x"]))) for _ in range(2))
    assert first.num_rows == 300
    assert first.equals(second)


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_nothing_is_written_beside_the_database_or_in_it(journal: str, tmp_path: Path) -> None:
    path = make_sqlite(tmp_path / "scores.db")
    with closing(sqlite3.connect(path)) as opened:
        opened.execute(f"PRAGMA journal_mode = {journal}")
    before = state(tmp_path)
    audit(path, sql=ALL)
    assert state(tmp_path) == before


def test_nothing_is_written_beside_a_database_of_duckdb_or_in_it(duckdb_file: Path) -> None:
    before = state(duckdb_file.parent)
    audit(duckdb_file, sql=f"{ALL} ORDER BY x")
    assert state(duckdb_file.parent) == before


def test_rows_that_are_only_in_the_log_of_sqlite_are_read(tmp_path: Path) -> None:
    path = make_sqlite(tmp_path / "scores.db")
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("PRAGMA journal_mode = wal")
        opened.execute("DELETE FROM scored WHERE sex = 'f'")
        opened.commit()
        n_rows = audit(path, sql=ALL)["n_samples"]
    assert n_rows == int((COLUMNS["sex"] == "m").sum())


FORBIDDEN = [
    "INSERT INTO scored (y) VALUES (1)",
    "DELETE FROM scored",
    "DROP TABLE scored",
    "CREATE TABLE more AS SELECT 1",
    "CREATE TEMP TABLE more AS SELECT 1",
    "ATTACH '{folder}/other.db' AS other",
    "PRAGMA user_version = 3",
    f"{ALL}; DROP TABLE scored",
    f"{ALL}; {ALL}",
    "VACUUM INTO '{folder}/copy.db'",
    "COPY scored TO '{folder}/copy.csv'",
    "INSTALL httpfs",
    "",
    "-- nothing",
]


@pytest.mark.parametrize("sql", FORBIDDEN)
def test_what_is_no_single_select_is_refused_and_changes_nothing(sql: str, database: Path) -> None:
    folder = database.parent
    before = state(folder)
    with pytest.raises(
        (epiloss.OptionError, epiloss.DataError), match=r"sql must be|the query on .* failed"
    ) as told:
        audit(database, sql=sql.format(folder=folder))
    assert "\n" not in str(told.value)
    assert state(folder) == before


@pytest.mark.parametrize(
    "expression",
    ["load_extension('/tmp/none')", "random()", "hex(randomblob(4))", "load_extension('a', 'b')"],
)
@pytest.mark.parametrize("by_view", [False, True])
def test_functions_of_sqlite_that_load_code_or_roll_dice_are_refused(
    expression: str, by_view: bool, tmp_path: Path
) -> None:
    view = f"CREATE VIEW trap AS SELECT y, p, {expression} AS z FROM scored"
    path = make_sqlite(tmp_path / "scores.db", view)
    sql = "SELECT * FROM trap" if by_view else f"SELECT y, p, {expression} AS z FROM scored"
    with pytest.raises(epiloss.OptionError, match="the same rows each time and loads no extensions"):
        audit(path, sql=sql)


SECRET = "a secret of the machine"


@pytest.mark.parametrize(
    "source",
    [
        "read_csv('{file}')",
        "read_text('{file}')",
        "'{file}'",
        "glob('{file}')",
        "secret",
        "sqlite_scan('{file}', 't')",
    ],
)
def test_duckdb_reads_no_other_file_no_variable_and_loads_no_extension(
    source: str, duckdb_file: Path
) -> None:
    secret = pa.table({"y": [0, 1], "p": [0.1, 0.9]})
    assert secret.num_rows == 2  # which a query would see, were variables looked at
    file = duckdb_file.parent / "secret.csv"
    file.write_text(f"y,p,note\n1,0.5,{SECRET}\n")
    with pytest.raises(epiloss.DataError, match=r"the query on .* failed") as told:
        audit(duckdb_file, sql=f"SELECT * FROM {source.format(file=file)}")
    assert SECRET not in str(told.value)


def test_a_view_that_makes_endless_texts_is_refused(tmp_path: Path) -> None:
    view = "CREATE VIEW trap AS SELECT y, p, hex(zeroblob(100000000)) AS z FROM scored"
    path = make_sqlite(tmp_path / "scores.db", view)
    with pytest.raises(epiloss.DataError, match="too big"):
        audit(path, sql="SELECT * FROM trap")


BAD = {
    "SELECT * FROM scorde": "no such table: scorde.*it has the table scored|scorde does not exist",
    "SELECT y, q FROM scored": 'no such column: q|column "q" not found',
    "SELEC 1": "syntax error",
    "SELECT y, p, x AS y FROM scored": "distinct names, got 'y' twice",
    "SELECT y, p FROM scored WHERE y > 7": "at least one row",
}


@pytest.mark.parametrize("sql", BAD)
def test_what_is_wrong_with_a_query_is_said_in_one_sentence(sql: str, database: Path) -> None:
    with pytest.raises(epiloss.DataError, match=BAD[sql]) as told:
        audit(database, sql=sql)
    assert "\n" not in str(told.value)


def test_a_column_of_texts_and_numbers_is_refused_and_can_be_cast(sqlite: Path) -> None:
    with pytest.raises(epiloss.DataError, match=r"'mixed'.*one type.*CAST\(mixed AS TEXT\)"):
        audit(sqlite, sql="SELECT y, p, mixed FROM scored")
    assert (
        audit(sqlite, sql="SELECT y, p, x, CAST(mixed AS TEXT) AS mixed FROM scored")["n_samples"] == N
    )


def test_a_column_of_blobs_is_no_feature_but_may_be_left_out(
    sqlite: Path, expected: dict[str, Any]
) -> None:
    sql = "SELECT y, p, x, sex, photo FROM scored"
    with pytest.raises(epiloss.DataError, match="'photo' must hold numbers"):
        audit(sqlite, sql=sql)
    assert audit(sqlite, sql=sql, exclude="photo") == expected


def test_whole_numbers_and_fractions_in_one_column_are_numbers(tmp_path: Path) -> None:
    path = make_sqlite(
        tmp_path / "a.db", "CREATE VIEW v AS SELECT y, p, iif(x > 0, 1, 0.5) AS z FROM scored"
    )
    assert open_query(Query(str(path), "SELECT * FROM v")).schema.field("z").type == pa.float64()


def test_a_text_that_is_not_utf8_is_told(tmp_path: Path) -> None:
    path = make_sqlite(tmp_path / "a.db", "UPDATE scored SET sex = CAST(x'ff66' AS TEXT)")
    with pytest.raises(epiloss.DataError, match="UTF-8"):
        audit(path, sql=ALL)


def test_a_database_without_a_query_names_its_tables(database: Path) -> None:
    with pytest.raises(epiloss.DataError, match=r"sql='SELECT \.\.\.'; it has the table scored") as told:
        audit(database)
    assert "\n" not in str(told.value)


def test_names_of_tables_do_not_steer_a_terminal(tmp_path: Path) -> None:
    path = make_sqlite(tmp_path / "a.db", 'CREATE TABLE "\x1b[2Jnice\n" (a)')
    with pytest.raises(epiloss.DataError) as told:
        audit(path)
    assert str(told.value).isprintable()


@pytest.mark.parametrize("given", [["a.db", "b.db"], pa.table({"y": [1]}), {"y": [1]}])
def test_a_query_needs_one_file(given: Any) -> None:
    with pytest.raises(epiloss.OptionError, match="sql needs the path of one database file"):
        audit(given, sql=ALL)


def test_a_query_needs_a_database(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    csv.write_csv(pa.table(COLUMNS), path)
    with pytest.raises(epiloss.DataError, match="sql needs an SQLite or DuckDB database file"):
        audit(path, sql=ALL)
    with pytest.raises(epiloss.DataError, match="cannot be read: No such file"):
        audit(tmp_path / "none.db", sql=ALL)


@pytest.mark.parametrize("keep", [0.2, 0.6, 0.95])
def test_a_database_that_is_cut_is_told_in_one_sentence(keep: float, database: Path) -> None:
    content = database.read_bytes()
    database.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(epiloss.DataError) as told:
        audit(database, sql=ALL)
    assert "\n" not in str(told.value)


def test_damaged_databases_of_sqlite_end_in_a_result_or_in_one_sentence(sqlite: Path) -> None:
    content, g = sqlite.read_bytes(), np.random.default_rng(1)
    for _ in range(25):
        damaged = bytearray(content)
        for place in g.integers(16, len(content), 30):
            damaged[place] = g.integers(256)
        sqlite.write_bytes(damaged)
        said = ""
        try:
            audit(sqlite, sql=ALL)
        except (epiloss.DataError, epiloss.OptionError) as error:
            said = str(error)
        assert said.isprintable()


def test_a_part_is_sent_to_other_processes_and_found_from_other_folders(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(database.parent)
    (part,) = open_query(Query(database.name, ALL)).parts
    sent = pickle.loads(pickle.dumps(part))
    monkeypatch.chdir("/")
    assert pa.Table.from_batches(list(sent.batches(["p"]))).num_rows == N


def test_a_checkpoint_is_used_again_unless_the_query_is_another(
    database: Path, tmp_path: Path, expected: dict[str, Any]
) -> None:
    kept = tmp_path / "kept"
    for _ in range(2):
        assert audit(database, sql=ALL, checkpoint=kept) == expected
    assert audit(database, sql=f"{ALL} WHERE x > 0", checkpoint=kept)["n_samples"] < N


def test_a_database_that_is_open_elsewhere_is_told(duckdb_file: Path) -> None:
    import duckdb

    with closing(duckdb.connect(str(duckdb_file))) as opened:
        with pytest.raises(
            epiloss.DataError, match="Close the other connection to it, or pass a duckdb relation"
        ):
            audit(duckdb_file, sql=ALL)
        assert audit(opened.sql(ALL))["n_samples"] == N


def test_the_command_line_audits_and_repairs_the_rows_of_a_query(
    sqlite: Path, tmp_path: Path, forked: ForkedScripts
) -> None:
    names = ("--sql", ALL, "--score", "p")
    repair, output = tmp_path / "repair.json", tmp_path / "better.csv"
    done = forked.command("audit", str(sqlite), *names, "--label", "y", "--save-repair", str(repair))
    assert done.returncode == 0, done.stderr
    assert f"{N} rows" in done.stdout
    done = forked.command("apply", str(repair), str(sqlite), *names, "--output", str(output))
    assert done.returncode == 0, done.stderr
    assert csv.read_csv(output).num_rows == N


@pytest.mark.parametrize(
    ("sql", "code"), [("DROP TABLE scored", 2), ("SELECT * FROM nothing", 4), ("", 2)]
)
def test_the_command_line_answers_with_one_line(
    sql: str, code: int, sqlite: Path, forked: ForkedScripts
) -> None:
    done = forked.command("audit", str(sqlite), "--sql", sql, "--label", "y", "--score", "p")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1)


ENDLESS = {
    "sqlite": "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) "
    "SELECT i AS y, i AS p FROM c WHERE i < 0",
    "duckdb": "SELECT count(*) AS y, 0.5 AS p FROM range(4000000) a, range(4000000) b "
    "WHERE a.range + b.range < 0",
}


@pytest.fixture
def endless(database: Path) -> Iterator[subprocess.Popen[str]]:
    sql = ENDLESS[database.suffix[1:]]
    command = [
        sys.executable,
        "-m",
        "epiloss",
        "audit",
        str(database),
        "--sql",
        sql,
        "--label",
        "y",
        "--score",
        "p",
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=restore_ctrl_c,
    )
    yield process
    process.kill()
    process.communicate()


def test_ctrl_c_stops_a_query_without_end(endless: subprocess.Popen[str]) -> None:
    time.sleep(4)  # until the query runs, on a busy machine too
    assert endless.poll() is None
    endless.send_signal(signal.SIGINT)
    _, said = endless.communicate(timeout=30)
    assert endless.returncode == 130
    assert said.strip() == "stopped."


def test_ctrl_c_before_a_duckdb_query_starts_is_not_lost() -> None:
    """DuckDB forgets an interrupt that comes before the query runs, so that it must be repeated."""
    interrupts: list[None] = []
    stopped = threading.Event()

    class Opened:
        def interrupt(self) -> None:
            interrupts.append(None)
            if len(interrupts) == 3:
                stopped.set()

    with heard_ctrl_c():
        threading.Timer(0.2, _thread.interrupt_main).start()
        with pytest.raises(KeyboardInterrupt):
            databases._interruptible(Opened(), lambda: stopped.wait(60))
    assert len(interrupts) == 3


def test_killed_in_a_query_it_leaves_the_database_as_it_was(
    database: Path, endless: subprocess.Popen[str]
) -> None:
    before = state(database.parent)
    time.sleep(3)
    endless.kill()
    endless.wait(timeout=30)
    assert state(database.parent) == before
    assert audit(database, sql=ALL)["n_samples"] == N


def test_a_folder_that_may_not_be_written_to_is_read(sqlite: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    sqlite.parent.chmod(0o500)
    try:
        assert audit(sqlite, sql=ALL)["n_samples"] == N
    finally:
        sqlite.parent.chmod(0o700)
