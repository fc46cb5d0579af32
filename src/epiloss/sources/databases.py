"""Database files of DuckDB and SQLite: the rows of one query, read batch by batch and never written."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
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
HEAD = 16  # bytes that tell what a file is
_SQLITE_MARK, _DUCKDB_MARK = b"SQLite format 3\0", b"DUCK"
_STEP = 256  # rows that SQLite gives at once
_BATCH = 2**24  # bytes of texts in a batch of SQLite's rows
_LONGEST = 2**20  # bytes of a text or blob: a view can make one of any length
_INSTRUCTIONS = 100_000  # of SQLite's machine, after which Ctrl-C is looked for
_SHOWN = 12  # names of tables
# the same rows in the same order each time; and no file, extension or variable but the database itself
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
_FORBIDDEN = ("load_extension", "random", "randomblob")  # these would give other rows each time


@dataclass(frozen=True)
class Query:
    """A database file, and the query whose rows are the table."""

    path: str
    sql: str


@dataclass(frozen=True)
class QueryPart(Part):
    """The rows of a query, which is run again each time they are read."""

    path: str
    sql: str
    kind: str
    schema: Any
    state: str
    folder: str  # from which the path was given
    n_rows: int | None = None
    first_row: int = 0

    @property
    def name(self) -> str:
        """The database file."""
        return self.path

    @property
    def identity(self) -> str:
        """The file, its size and time, and the query."""
        return f"{self.path}|{self.state}|{self.sql}"

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Run the whole query: with fewer columns a database may give its rows in another order."""
        place = os.path.join(self.folder, self.path)
        size = batch_rows(self.schema, columns)
        read = _sqlite_batches if self.kind == SQLITE else _duckdb_batches
        with _told(self.path, place, self.kind):
            for batch in read(place, self.sql, self.schema, size):
                yield completed(batch, self.schema, columns, {})


def database_kind(head: bytes) -> str | None:
    """Return whose database a file is that begins so; None for all other files.

    Examples
    --------
    >>> database_kind(b"SQLite format 3" + bytes(1)), database_kind(b"PAR1")
    ('SQLite', None)
    """
    if head.startswith(_SQLITE_MARK):
        return SQLITE
    return DUCKDB if head[8:12] == _DUCKDB_MARK else None


def needs_query(path: str, kind: str, *, is_file: bool = True) -> DataError:
    """Return what to say of a database that is given without a query, or not as a file."""
    if not is_file:
        return DataError(
            printable(
                f"{path} is {_a(kind)} database, which must be a file of this machine. Save it as "
            )
            + "one, and pass sql='SELECT ...'."
        )
    with _told(path, path, kind):
        tables = _tables(path, kind)
    return DataError(
        printable(f"{path} is {_a(kind)} database, so a query must say which rows to read. Pass ")
        + printable(f"sql='SELECT ...'; {_has(tables)}.")
    )


def open_query(query: Query) -> Source:
    """Return the rows of a query as a source; its columns are known before any row is used."""
    path, sql = os.fspath(query.path), _checked_text(query.sql)
    kind = _kind(path)
    status = os.stat(path)
    state, folder = f"{status.st_size}|{status.st_mtime_ns}", os.getcwd()
    with _told(path, path, kind):
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
            printable(
                f"a database must be a file of this machine, got {shown(path)!r}. Download it first."
            )
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
                f"sql needs a database file of SQLite or DuckDB, got {path!r}, which is neither. Leave "
                "sql out to read a table from the file."
            )
        )
    return kind


def _a(kind: str) -> str:
    return "an SQLite" if kind == SQLITE else "a DuckDB"


def _has(tables: Sequence[str]) -> str:
    """Say which tables a database has."""
    if not tables:
        return "it has no tables"
    more = f" and {len(tables) - _SHOWN:,} more" if len(tables) > _SHOWN else ""
    some = ", ".join(f"{one:.40}" for one in tables[:_SHOWN])
    return f"it has the table{'s' if len(tables) > 1 else ''} {some}{more}"


@contextmanager
def _told(path: str, place: str, kind: str) -> Iterator[None]:
    """Say in a sentence what a database finds wrong with a query, or with itself."""
    try:
        yield
    except (DataError, OptionError, MissingExtraError):
        raise
    except sqlite3.OperationalError as error:
        if str(error) == "interrupted":  # it drops what is raised while it works
            raise KeyboardInterrupt from None
        raise _wrong(path, place, kind, error) from error
    except (sqlite3.Error, arrow().ArrowException, OSError, OverflowError) as error:
        raise _wrong(path, place, kind, error) from error
    except Exception as error:
        if kind == SQLITE or not type(error).__module__.startswith(("duckdb", "_duckdb")):
            raise
        raise _wrong(path, place, kind, error) from error


def _wrong(path: str, place: str, kind: str, error: Exception) -> DataError:
    reason = printable(str(error).strip().split("\n")[0])[:200].rstrip(".!")
    if "lock" in reason.lower() or "different configuration" in reason:
        remedy = "Close it where it is open, or pass the relation of duckdb that is open there"
    elif "out of memory" in reason.lower():
        remedy = "Sort and join less in the query, or write its rows to Parquet and audit that file"
    else:
        try:
            remedy = f"Check the query; {_has(_tables(place, kind))}"
        except Exception:  # what cannot be listed cannot be queried either, and that is being told
            remedy = "Check that the file is whole"
    return DataError(printable(f"{path} does not answer the query: {reason}. {remedy}."))


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
    """Open a file that is never written to, and of which no view can do more than read."""
    ways = "?mode=ro&immutable=1" if _is_settled(path) else "?mode=ro"
    opened = sqlite3.connect(f"{Path(path).absolute().as_uri()}{ways}", uri=True)
    opened.execute("PRAGMA trusted_schema = OFF")
    opened.execute("PRAGMA cell_size_check = ON")
    opened.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    opened.set_authorizer(_allowed)
    opened.set_progress_handler(lambda: 0, _INSTRUCTIONS)
    return opened


def _is_settled(path: str) -> bool:
    """Tell whether a file has a log of changes that is empty: to read it, SQLite would make files."""
    with open(path, "rb") as file:
        has_log = file.read(20)[18:20] == b"\2\2"
    log = f"{path}-wal"
    return has_log and not (os.path.exists(log) and os.path.getsize(log))


def _allowed(action: int, name: str | None, function: str | None, *_: object) -> int:
    called = (function or "").lower()
    may = action in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and called not in _FORBIDDEN)
    return sqlite3.SQLITE_OK if may else sqlite3.SQLITE_DENY


def _sqlite_rows(path: str, sql: str) -> Iterator[tuple[list[str], list[tuple[Any, ...]]]]:
    """Return the names of the columns with some rows at a time; the first time there are none."""
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
                    "sql must be a SELECT query that gives the same rows each time and loads nothing, "
                    f"got {' '.join(sql.split())!r:.60}."
                )
            ) from None
        if cursor.description is None:
            raise OptionError(f"sql must be a SELECT query, got {' '.join(sql.split())!r:.60}.")
        names = [column[0] for column in cursor.description]
        yield names, []
        while rows := cursor.fetchmany(_STEP):
            yield names, rows


def _sqlite_schema(path: str, sql: str) -> tuple[Any, int]:
    """Return the columns, of which SQLite knows no types but those of all values, and count the rows."""
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
                    f"column {name!r} of the query must hold values of one kind, got numbers and texts "
                    f"or blobs. Cast it: CAST({name} AS TEXT)."
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
        if waiting and (len(waiting) + _STEP > size or n_bytes > _BATCH):
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
            printable(f"{path!r} is a DuckDB database, which needs duckdb to be read, and that is not ")
            + "installed. Run: pip install 'epiloss[duckdb]'"
        ) from None
    opened = duckdb.connect(path, read_only=True, config=_DUCKDB_SETTINGS)
    opened.execute("SELECT setseed(0)").fetchall()  # so that samples are the same each time
    return opened


@contextmanager
def _relation(path: str, sql: str) -> Iterator[tuple[Any, Any]]:
    """Open a file, and return the connection and the rows of a query."""
    with closing(_duckdb(path)) as opened:
        found = opened.extract_statements(sql)
        kinds = [str(one.type).rpartition(".")[2] for one in found]
        if kinds != ["SELECT"]:
            got = " and ".join(kinds) or "none"
            raise OptionError(f"sql must be one SELECT query, got {got}. Run all else in DuckDB itself.")
        yield opened, opened.sql(found[0].query)


def _duckdb_schema(path: str, sql: str) -> tuple[Any, None]:
    with _relation(path, sql) as (opened, relation):
        names = list(relation.columns)  # one of which Arrow would rename if it came twice
        types = _answer(opened, relation.limit(0).to_arrow_table).schema.types
        fields = map(arrow().field, names, types)
        return arrow().schema(list(fields)), None


def _duckdb_batches(path: str, sql: str, schema: Any, size: int) -> Iterator[Any]:
    with _relation(path, sql) as (opened, relation):
        batches = iter(_answer(opened, partial(relation_batches, relation, size)))
        while (batch := _answer(opened, partial(next, batches, None))) is not None:
            yield batch


def _answer(opened: Any, ask: Callable[[], Any]) -> Any:
    """Return what DuckDB answers. It works in a thread of its own: it does not look for Ctrl-C."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask)
        try:
            return answer.result()
        except KeyboardInterrupt:
            opened.interrupt()
            raise


def relation_batches(relation: Any, size: int) -> Any:
    """Return the rows of a relation of DuckDB as they come."""
    named = "to_arrow_reader" if hasattr(type(relation), "to_arrow_reader") else "fetch_arrow_reader"
    return getattr(relation, named)(size)  # the one since 1.5, the other before
