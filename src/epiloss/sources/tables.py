"""Opening tables as sources: files, data frames, lazy frames, data sets and relations."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from glob import has_magic
from typing import Any

from epiloss.errors import DataError, MissingExtraError, NoColumnError, OptionError, printable
from epiloss.input.tables import as_table, no_column
from epiloss.sources.addresses import local_name
from epiloss.sources.arrow import arrow, is_list
from epiloss.sources.base import (
    Part,
    Source,
    batch_rows,
    completed,
    list_widths,
    plain_schema,
)
from epiloss.sources.databases import Query, open_query, relation_batches
from epiloss.sources.files import open_files
from epiloss.sources.json_lines import flattened
from epiloss.sources.lakehouse import lone_table, open_table
from epiloss.sources.logs.base import Log
from epiloss.sources.whole_files import read_whole

ReadBatches = Callable[[list[str], int], Iterator[Any]]  # (columns, rows per batch) -> batches


@dataclass(frozen=True)
class ObjectPart(Part):
    """A table object of this process, which can be read repeatedly."""

    title: str
    schema: Any
    read: ReadBatches
    first_row: int = 0
    n_rows: int | None = None

    @property
    def name(self) -> str:
        """The name of the object in error messages."""
        return self.title

    @property
    def identity(self) -> str:
        """The object, which exists only in this process."""
        return f"{self.name}|{id(self)}"

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Read some columns in small batches."""
        size = batch_rows(self.schema, columns)
        with _table_errors(self.title):
            for batch in self.read(list(columns), size):
                plain = completed(batch, self.schema, columns, {})
                for start in range(0, batch.num_rows, size):
                    yield plain.slice(start, size)


@dataclass(frozen=True)
class DaskPart(Part):
    """A partition of a dask data frame, computed on the worker that reads it."""

    delayed: Any
    number: int
    schema: Any
    first_row: int = 0
    n_rows: int | None = None

    @property
    def name(self) -> str:
        """The partition."""
        return f"partition {self.number}"

    @property
    def identity(self) -> str:
        """The partition's dask key, which depends on its computation."""
        return str(self.delayed.key)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Compute the partition here."""
        pa = arrow()
        fields = [self.schema.field(name) for name in columns]
        with _table_errors(self.name):
            frame = self.delayed.compute()
            table = pa.Table.from_pandas(frame[list(columns)], pa.schema(fields), preserve_index=False)
        yield from table.to_batches(batch_rows(self.schema, columns))


@dataclass(frozen=True)
class SparkPart(Part):
    """A whole Spark data frame, which Spark itself partitions."""

    frame: Any
    schema: Any
    first_row: int = 0
    n_rows: int | None = None

    @property
    def name(self) -> str:
        """The data frame."""
        return "the Spark data frame"

    @property
    def identity(self) -> str:
        """The data frame, which exists only in this process."""
        return f"spark|{id(self.frame)}"

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Raise an error, because the rows are on the cluster."""
        raise DataError("a Spark data frame can only be read with engine='spark'. Pass it.")


def open_source(X: Any) -> Source:
    """Open files, given by name, or a table of any supported type."""
    if isinstance(X, Log):
        return replace(open_source(X.table), remarks=X.remarks)
    if isinstance(X, Query):
        return open_query(X)
    X = [local_name(one) for one in X] if isinstance(X, list | tuple) else local_name(X)
    if isinstance(X, str | os.PathLike):
        whole = read_whole(os.fspath(X))
        return _open_paths([X]) if whole is None else open_source(whole)
    if isinstance(X, list | tuple) and X and all(isinstance(one, str | os.PathLike) for one in X):
        return _open_paths(X)
    for opened in _OPENERS:
        with _table_errors(f"the {type(X).__name__}"):
            source = opened(X)
        if source is not None:
            return source
    raise DataError(
        "source must be files, a data frame, a lazy frame, a data set or a relation, got "
        f"{type(X).__name__}. For arrays use epiloss.audit."
    )


def with_query(X: Any, sql: str | None) -> Any:
    """Return a query on a database file; without ``sql``, return X unchanged."""
    if sql is None or isinstance(X, Query):
        return X
    names = list(X) if isinstance(X, list | tuple) else [X]
    if len(names) != 1 or not isinstance(names[0], str | os.PathLike):
        got = f"{len(names)} files" if len(names) != 1 else f"a {type(names[0]).__name__}"
        raise OptionError(f"sql needs the path of one database file, got {got}. Pass one file.")
    return Query(os.fspath(local_name(names[0])), sql)


def named_columns(X: Any, names: Sequence[str], option: str) -> list[str]:
    """Return the columns for names, comma-separated names (``p0,p1``) and patterns (``p*``).

    The source is opened only if there is a comma or a pattern. Columns that match a pattern are sorted
    in natural order, as classes are: p2 before p10.
    """
    if not any("," in name or has_magic(name) for name in names):
        return list(names)
    known = open_source(X).schema.names
    found = [one for name in names for one in _matching(name, known, option)]
    repeated = next((name for name in found if found.count(name) > 1), None)
    if repeated is not None:
        raise OptionError(
            printable(f"{option} must list each column once, got {repeated!r} twice. Remove one.")
        )
    return found


def _matching(name: str, known: Sequence[str], option: str) -> list[str]:
    if name in known or not ("," in name or has_magic(name)):
        return [name]  # a column name may itself contain commas or asterisks
    if "," in name:
        return [one for part in name.split(",") for one in _matching(part.strip(), known, option)]
    found = [one for one in known if fnmatchcase(one, name)]
    if not found:
        raise NoColumnError(option, f"must match a column, got {name!r}; {no_column(name, known)}")
    return sorted(found, key=_natural)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that compares numbers in names as numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _open_paths(names: Sequence[str | os.PathLike[str]]) -> Source:
    folder = lone_table(names)
    if folder is None:
        return open_files(names)
    with _table_errors(printable(folder)):
        return open_source(open_table(folder))


@contextmanager
def _table_errors(what: str) -> Iterator[None]:
    """Convert any error of another package into a DataError with one sentence."""
    try:
        yield
    except (DataError, MissingExtraError, MemoryError):
        raise
    except Exception as error:
        reason = printable(" ".join(str(error).split()))[:200].rstrip(".")
        raise DataError(
            f"{what} cannot be read as a table: {reason or type(error).__name__}. Convert or drop the "
            "columns in question, or write the table to a file and audit that."
        ) from error


def _is_from(X: Any, package: str) -> bool:
    """Return whether a package defines the class of an object, without importing the package."""
    return any(one.__module__.split(".")[0] == package for one in type(X).__mro__)


def _source_of_parts(schema: Any, parts: Sequence[Part]) -> Source:
    return Source(schema, parts, list_widths(schema, parts))


def _source_of_object(name: str, schema: Any, read: ReadBatches, n_rows: int | None = None) -> Source:
    schema = plain_schema(schema)
    return _source_of_parts(schema, [ObjectPart(name, schema, read, n_rows=n_rows)])


def _spark(X: Any) -> Source | None:
    if not (_is_from(X, "pyspark") and hasattr(X, "mapInArrow")):
        return None
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = plain_schema(to_arrow_schema(X.schema))
    lists = [field.name for field in schema if is_list(field.type)]
    first = X.select(*lists).first() if lists else None
    widths = {} if first is None else {name: len(first[name] or ()) for name in lists}
    return Source(schema, [SparkPart(X, schema)], widths)


def _dask(X: Any) -> Source | None:
    if not (hasattr(X, "to_delayed") and hasattr(X, "_meta")):
        return None
    pa = arrow()
    first = X.head(1, npartitions=-1)
    schema = plain_schema(pa.Schema.from_pandas(first, preserve_index=False).remove_metadata())
    parts = [DaskPart(one, number, schema) for number, one in enumerate(X.to_delayed())]
    return _source_of_parts(schema, parts)


def _arrow_dataset(X: Any) -> Source | None:
    if not (_is_from(X, "pyarrow") and hasattr(X, "to_batches") and hasattr(X, "scanner")):
        return None

    def read(columns: list[str], size: int) -> Iterator[Any]:
        yield from X.to_batches(columns=columns, batch_size=size)

    return _source_of_object("the data set", X.schema, read)


def _delta(X: Any) -> Source | None:
    is_table = _is_from(X, "deltalake") and hasattr(X, "to_pyarrow_dataset")
    return _arrow_dataset(X.to_pyarrow_dataset()) if is_table else None


def _iceberg(X: Any) -> Source | None:
    if not (_is_from(X, "pyiceberg") and hasattr(X, "scan") and hasattr(X, "schema")):
        return None
    fields = [field.remove_metadata() for field in X.schema().as_arrow()]

    def read(columns: list[str], size: int) -> Iterator[Any]:
        yield from X.scan(selected_fields=tuple(columns)).to_arrow_batch_reader()

    return _source_of_object("the Iceberg table", arrow().schema(fields), read)


def _lazy_frame(X: Any) -> Source | None:
    if not (_is_from(X, "polars") and hasattr(X, "collect_schema") and hasattr(X, "collect")):
        return None
    schema = X.limit(0).collect().to_arrow().schema

    def read(columns: list[str], size: int) -> Iterator[Any]:
        for frame in X.select(columns).collect_batches(chunk_size=size, maintain_order=True):
            yield from frame.to_arrow().to_batches()

    return _source_of_object("the lazy frame", schema, read)


def _relation(X: Any) -> Source | None:
    if not (_is_from(X, "duckdb") or _is_from(X, "_duckdb")) or not hasattr(X, "project"):
        return None
    schema = X.limit(0).to_arrow_table().schema

    def read(columns: list[str], size: int) -> Iterator[Any]:
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        yield from relation_batches(X.project(quoted), size)

    return _source_of_object("the relation", schema, read)


def _hugging_face(X: Any) -> Source | None:
    if not (_is_from(X, "datasets") and hasattr(X, "select_columns")):
        return None
    if isinstance(X, Mapping):
        raise DataError(
            f"source must be one data set, got a dictionary of {', '.join(map(str, X))}. Pass one split."
        )
    if X.features is None:
        raise DataError(
            "the data set must have column types, got an iterable one without features. Set its "
            "features=, or write it to Parquet."
        )
    schema = X.features.arrow_schema.remove_metadata()
    n_rows = len(X) if hasattr(X, "__len__") else None
    flat = arrow().schema([field.with_type(_flat_type(field.type)) for field in schema])

    def read(columns: list[str], size: int) -> Iterator[Any]:
        for table in X.select_columns(columns).with_format("arrow").iter(size):
            for name in columns:
                if flat.field(name).type != schema.field(name).type:
                    place = table.schema.get_field_index(name)
                    values = _flattened(name, table.column(name), flat.field(name).type)
                    table = table.set_column(place, name, values)
            yield from table.to_batches()

    return _source_of_object("the data set", flat, read, n_rows)


def _flat_type(kind: Any) -> Any:
    """Return the type of a flat list for an Array2D, Array3D, ... of known shape; others unchanged."""
    shape = getattr(kind, "shape", None)
    if shape is None or not hasattr(kind, "storage_type") or None in shape:
        return kind
    inner = kind.storage_type
    while arrow().types.is_list(inner):
        inner = inner.value_type
    return arrow().list_(inner, math.prod(shape))


def _flattened(name: str, values: Any, kind: Any) -> Any:
    values = values.combine_chunks()
    storage = values.storage if hasattr(values, "storage") else values
    if storage.null_count:
        raise DataError(
            printable(f"column {name!r} must have no missing rows, got {storage.null_count}. ")
            + "Drop these rows with dataset.filter."
        )
    while arrow().types.is_list(storage.type):
        storage = storage.flatten()
    return arrow().FixedSizeListArray.from_arrays(storage, type=kind)


def _is_records(X: Any) -> bool:
    return isinstance(X, list | tuple) and bool(X) and all(isinstance(row, Mapping) for row in X)


def _arrow_stream(X: Any) -> Source | None:
    """Open objects with the Arrow or data frame protocol, mappings of columns and lists of rows."""
    pa = arrow()
    if isinstance(X, pa.RecordBatchReader):
        raise DataError(
            "source must be readable more than once, got a RecordBatchReader, which is not. Pass a data "
            "set, a table or files."
        )
    if isinstance(X, Mapping):
        table = pa.table(dict(X))
    elif _is_records(X):
        table = flattened(pa.Table.from_pylist([dict(row) for row in X]))
    elif not hasattr(X, "__arrow_c_stream__"):
        if not hasattr(X, "__dataframe__"):
            return None
        table = as_table(X, "the table")
    elif _is_from(X, "pandas"):
        names = [str(name) for name in X.columns]
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            text = f"columns must have distinct names, got {repeated[0]!r} twice. Rename one of them."
            raise DataError(printable(text))
        table = pa.Table.from_pandas(X, preserve_index=False)
    else:
        table = pa.table(X)
    schema, table = table.schema, table.replace_schema_metadata(None)

    def read(columns: list[str], size: int) -> Iterator[Any]:
        yield from table.select(columns).to_batches(size)

    return _source_of_object("the table", schema, read, table.num_rows)


_OPENERS = (
    _spark,
    _dask,
    _delta,
    _iceberg,
    _arrow_dataset,
    _lazy_frame,
    _relation,
    _hugging_face,
    _arrow_stream,
)
