"""DuckDB and SQLite database files: the rows of one query, read in batches; nothing is written."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from epiloss.errors import DataError, MissingExtraError, OptionError, printable
from epiloss.sources.addresses import is_remote, shown
from epiloss.sources.arrow import arrow, is_text
from epiloss.sources.base import Part, Source, batch_rows, completed, list_widths, plain_schema
from epiloss.sources.schemas import check_names, without_nulls

SQLITE, DUCKDB = "SQLite", "DuckDB"
HEAD = 16  # bytes of a file that identify its format
_SQLITE_MAGIC, _DUCKDB_MAGIC = b"SQLite format 3\0", b"DUCK"
_FETCHED_ROWS = 256  # rows fetched from SQLite at a time
_BATCH_BYTES = 2**24  # bytes of strings in a batch of SQLite rows
_MAX_LENGTH = 2**20  # bytes of a string or blob, because a view can create one of any length
_INSTRUCTIONS = 100_000  # SQLite checks for Ctrl-C after this many virtual-machine instructions
_MAX_SHOWN = 12  # table names listed in an error
_POLL_SECONDS = 0.1  # between checks for Ctrl-C, and between interrupts of a DuckDB query
# One thread returns the same rows in the same order each time. The other settings keep the query from
# reading anything but the database: no other files, no extensions, no Python variables.
_DUCKDB_SETTINGS = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
    "threads": 1,
    "lock_configuration": True,
}
_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
_FORBIDDEN = ("load_extension", "random", "randomblob")  # random rows would differ between passes


@dataclass(frozen=True)
class Query:
    """A database file and a query on it."""

    path: str
    sql: str


@dataclass(frozen=True)
class QueryPart(Part):
    """The rows of a query, which is run again for each pass."""

    path: str
    sql: str
    kind: str
    schema: Any
    state: str
    folder: str  # the folder that a relative path refers to
    n_rows: int | None = None
    first_row: int = 0

    @property
    def name(self) -> str:
        """The database file."""
        return self.path

    @property
    def identity(self) -> str:
        """The file, its size and modification time, and the query."""
        return f"{self.path}|{self.state}|{self.sql}"

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Run the whole query, because selecting columns may change the order of the rows."""
        place = os.path.join(self.folder, self.path)
        size = batch_rows(self.schema, columns)
        read = _sqlite_batches if self.kind == SQLITE else _duckdb_batches
        with _database_errors(self.path, place, self.kind):
            for batch in read(place, self.sql, self.schema, size):
                yield completed(batch, self.schema, columns, {})


def database_kind(head: bytes) -> str | None:
    """Return the kind of database from the first bytes of a file; None for other files.

    Examples
    --------
    >>> database_kind(b"SQLite format 3" + bytes(1)), database_kind(b"PAR1")
    ('SQLite', None)
    """
    if head.startswith(_SQLITE_MAGIC):
        return SQLITE
    return DUCKDB if head[8:12] == _DUCKDB_MAGIC else None


def needs_query(path: str, kind: str, *, is_file: bool = True) -> DataError:
    """Return the error for a database without a query, or one that is not a local file."""
    if not is_file:
        return DataError(
            printable(
                f"a database must be a local file, got the {kind} database {path}. Save it as a file, "
                "and pass sql='SELECT ...'."
            )
        )
    with _database_errors(path, path, kind):
        tables = _tables(path, kind)
    return DataError(
        printable(
            f"{path} is {_a(kind)} database, which needs a query to select the rows. Pass "
            f"sql='SELECT ...'; {_has(tables)}."
        )
    )


def open_query(query: Query) -> Source:
    """Return the rows of a query as a source."""
    path, sql = os.fspath(query.path), _checked_text(query.sql)
    kind = _kind(path)
    status = os.stat(path)
    state, folder = f"{status.st_size}|{status.st_mtime_ns}", os.getcwd()
    with _database_errors(path, path, kind):
        found, n_rows = _sqlite_schema(path, sql) if kind == SQLITE else _duckdb_schema(path, sql)
    check_names(path, found)
    schema = without_nulls(plain_schema(found))
    parts = [QueryPart(path, sql, kind, schema, state, folder, n_rows)]
    return Source(schema, parts, list_widths(schema, parts))


def _checked_text(sql: Any) -> str:
    if not isinstance(sql, str) or not sql.strip():
        raise OptionError(f"sql must be a query such as 'SELECT * FROM scored', got {sql!r:.60}.")
    return sql


def _kind(path: str) -> str:
    if is_remote(path):
        raise DataError(
            printable(f"a database must be a local file, got {shown(path)!r}. Download it first.")
        )
    try:
        with open(path, "rb") as file:
            kind = database_kind(file.read(HEAD))
    except OSError as error:
        raise DataError(
            printable(f"{path!r} cannot be read: {error.strerror}. Check the path.")
        ) from None
    if kind is None:
        raise DataError(
            printable(
                f"sql needs an SQLite or DuckDB database file, got {path!r}, which is neither. Leave "
                "out sql to read the file as a table."
            )
        )
    return kind


def _a(kind: str) -> str:
    return "an SQLite" if kind == SQLITE else "a DuckDB"


def _has(tables: Sequence[str]) -> str:
    """Return the end of an error that lists the tables of a database."""
    if not tables:
        return "it has no tables"
    more = f" and {len(tables) - _MAX_SHOWN:,} more" if len(tables) > _MAX_SHOWN else ""
    some = ", ".join(f"{one:.40}" for one in tables[:_MAX_SHOWN])
    return f"it has the table{'s' if len(tables) > 1 else ''} {some}{more}"


@contextmanager
def _database_errors(path: str, place: str, kind: str) -> Iterator[None]:
    """Convert the errors of a database into a DataError with one sentence."""
    try:
        yield
    except (DataError, OptionError, MissingExtraError):
        raise
    except sqlite3.OperationalError as error:
        if str(error) == "interrupted":  # SQLite reports Ctrl-C in its progress handler like this
            raise KeyboardInterrupt from None
        raise _query_failed(path, place, kind, error) from error
    except (sqlite3.Error, arrow().ArrowException, OSError, OverflowError) as error:
        raise _query_failed(path, place, kind, error) from error
    except Exception as error:
        if kind == SQLITE or not type(error).__module__.startswith(("duckdb", "_duckdb")):
            raise
        raise _query_failed(path, place, kind, error) from error


def _query_failed(path: str, place: str, kind: str, error: Exception) -> DataError:
    reason = printable(str(error).strip().split("\n")[0])[:200].rstrip(".!")
    if "lock" in reason.lower() or "different configuration" in reason:
        remedy = "Close the other connection to it, or pass a duckdb relation of that connection"
    elif "out of memory" in reason.lower():
        remedy = "Sort and join less in the query, or write its rows to Parquet and audit that file"
    else:
        try:
            remedy = f"Check the query; {_has(_tables(place, kind))}"
        except Exception:  # the first error is reported; a second one adds nothing
            remedy = "Check that the file is complete"
    return DataError(printable(f"the query on {path} failed: {reason}. {remedy}."))


def _tables(path: str, kind: str) -> list[str]:
    if kind == SQLITE:
        sql = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        with closing(_sqlite(path)) as opened:
            return [str(name) for (name,) in opened.execute(sql)]
    with closing(_duckdb(path)) as opened:
        sql = "SELECT table_name FROM information_schema.tables ORDER BY table_name"
        return [str(name) for (name,) in opened.execute(sql).fetchall()]


# SQLite


def _sqlite(path: str) -> sqlite3.Connection:
    """Open a database for reading only, such that its views cannot do anything but read either."""
    mode = "?mode=ro&immutable=1" if _has_empty_wal(path) else "?mode=ro"
    opened = sqlite3.connect(f"{Path(path).absolute().as_uri()}{mode}", uri=True)
    opened.execute("PRAGMA trusted_schema = OFF")
    opened.execute("PRAGMA cell_size_check = ON")
    opened.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_LENGTH)
    opened.set_authorizer(_allowed)
    opened.set_progress_handler(lambda: 0, _INSTRUCTIONS)
    return opened


def _has_empty_wal(path: str) -> bool:
    """Return whether a database has an empty write-ahead log, for which SQLite would create files."""
    with open(path, "rb") as file:
        has_wal = file.read(20)[18:20] == b"\2\2"
    wal = f"{path}-wal"
    return has_wal and not (os.path.exists(wal) and os.path.getsize(wal))


def _allowed(action: int, name: str | None, function: str | None, *_: object) -> int:
    called = (function or "").lower()
    may = action in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and called not in _FORBIDDEN)
    return sqlite3.SQLITE_OK if may else sqlite3.SQLITE_DENY


def _sqlite_rows(path: str, sql: str) -> Iterator[tuple[list[str], list[tuple[Any, ...]]]]:
    """Yield the names of the columns with some rows at a time; the first time without rows."""
    with closing(_sqlite(path)) as opened:
        try:
            cursor = opened.execute(sql)
        except (sqlite3.Warning, sqlite3.ProgrammingError) as error:
            raise OptionError(f"sql must be one SELECT query: {str(error).rstrip('.')}.") from None
        except sqlite3.DatabaseError as error:
            if not any(word in str(error) for word in ("not authorized", "denied", "unsafe")):
                raise
            raise OptionError(
                printable(
                    "sql must be a SELECT query that returns the same rows each time and loads no "
                    f"extensions, got {' '.join(sql.split())!r:.60}. Remove random functions."
                )
            ) from None
        if cursor.description is None:
            raise OptionError(f"sql must be a SELECT query, got {' '.join(sql.split())!r:.60}.")
        names = [column[0] for column in cursor.description]
        yield names, []
        while rows := cursor.fetchmany(_FETCHED_ROWS):
            yield names, rows


def _sqlite_schema(path: str, sql: str) -> tuple[Any, int]:
    """Return the schema and the number of rows; types are inferred from all values."""
    pa = arrow()
    n_rows = 0
    kinds: list[set[type]] = []
    names: list[str] = []
    for names, rows in _sqlite_rows(path, sql):
        kinds = kinds or [set() for _ in names]
        n_rows += len(rows)
        for known, values in zip(kinds, zip(*rows, strict=True), strict=False):
            known.update(map(type, values))
    types = {int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary()}
    fields = []
    for name, known in zip(names, kinds, strict=True):
        some = known - {type(None)}
        some = {float} if some == {int, float} else some
        if len(some) > 1:
            raise DataError(
                printable(
                    f"column {name!r} of the query must hold values of one type, got a mixture of "
                    f"numbers, strings or blobs. Cast it: CAST({name} AS TEXT)."
                )
            )
        fields.append(pa.field(name, types[some.pop()] if some else pa.float64()))
    return pa.schema(fields), n_rows


def _sqlite_batches(path: str, sql: str, schema: Any, size: int) -> Iterator[Any]:
    pa = arrow()
    types = schema.types
    texts = [place for place, kind in enumerate(types) if is_text(kind) or pa.types.is_binary(kind)]
    waiting: list[tuple[Any, ...]] = []
    n_bytes = 0
    for _, rows in _sqlite_rows(path, sql):
        waiting += rows
        n_bytes += sum(len(row[place] or "") for place in texts for row in rows)
        if waiting and (len(waiting) + _FETCHED_ROWS > size or n_bytes > _BATCH_BYTES):
            yield _sqlite_batch(pa, waiting, schema.names, types)
            waiting, n_bytes = [], 0
    if waiting:
        yield _sqlite_batch(pa, waiting, schema.names, types)


def _sqlite_batch(pa: Any, rows: list[tuple[Any, ...]], names: list[str], types: list[Any]) -> Any:
    columns = zip(zip(*rows, strict=True), types, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(one, kind) for one, kind in columns], names)


# DuckDB


def _duckdb(path: str) -> Any:
    try:
        import duckdb
    except ImportError:
        raise MissingExtraError(
            printable(f"reading the DuckDB database {path!r} needs duckdb, which is not installed. ")
            + "Run: pip install 'epiloss[duckdb]'"
        ) from None
    opened = duckdb.connect(path, read_only=True, config=_DUCKDB_SETTINGS)
    opened.execute("SELECT setseed(0)").fetchall()  # samples are then the same in each pass
    return opened


@contextmanager
def _relation(path: str, sql: str) -> Iterator[tuple[Any, Any]]:
    """Open a database, and yield the connection and the query's relation."""
    with closing(_duckdb(path)) as opened:
        found = opened.extract_statements(sql)
        kinds = [str(one.type).rpartition(".")[2] for one in found]
        if kinds != ["SELECT"]:
            got = " and ".join(kinds) or "none"
            raise OptionError(
                f"sql must be one SELECT query, got {got}. Run other statements in DuckDB itself."
            )
        yield opened, opened.sql(found[0].query)


def _duckdb_schema(path: str, sql: str) -> tuple[Any, None]:
    with _relation(path, sql) as (opened, relation):
        names = list(relation.columns)  # not Arrow's names: it renames duplicates
        types = _interruptible(opened, relation.limit(0).to_arrow_table).schema.types
        fields = map(arrow().field, names, types)
        return arrow().schema(list(fields)), None


def _duckdb_batches(path: str, sql: str, schema: Any, size: int) -> Iterator[Any]:
    with _relation(path, sql) as (opened, relation):
        batches = iter(_interruptible(opened, partial(relation_batches, relation, size)))
        while (batch := _interruptible(opened, partial(next, batches, None))) is not None:
            yield batch


def _interruptible(opened: Any, call: Callable[[], Any]) -> Any:
    """Call DuckDB in another thread, so that Ctrl-C reaches this one and interrupts the query."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call)
        try:
            # Wait in short steps: a Ctrl-C repeated by _thread.interrupt_main does not end a wait.
            while not answer.done():
                wait([answer], _POLL_SECONDS)
            return answer.result()
        except KeyboardInterrupt:
            while not answer.done():
                opened.interrupt()  # repeated, because an interrupt before the query starts is lost
                wait([answer], _POLL_SECONDS)
            raise


def relation_batches(relation: Any, size: int) -> Any:
    """Return the rows of a DuckDB relation as an iterator of record batches."""
    since_1_5 = hasattr(type(relation), "to_arrow_reader")
    return relation.to_arrow_reader(size) if since_1_5 else relation.fetch_arrow_reader(size)
