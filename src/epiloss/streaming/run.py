"""An audit of data that are read in passes, of which only a sample is ever in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epiloss._progress import counted
from epiloss._threads import limited_threads
from epiloss.auditing.result import Audit
from epiloss.auditing.run import audit_problem
from epiloss.errors import DataError, OptionError, Remark, RowsError
from epiloss.estimation.options import Options, read_options
from epiloss.input.checks import task_and_remarks, without_equal_weights
from epiloss.input.labels import encode_labels, label_named, positive_class, read_classes
from epiloss.input.pandas_metadata import index_remark
from epiloss.input.problem import OneClassError, Reading
from epiloss.input.remarks import clipped_remark, dropped_remark, remarks_on, weightless_remarks
from epiloss.input.row_display import Display
from epiloss.sources.arrow import INDEX, mark_of
from epiloss.sources.base import Source
from epiloss.sources.files import FilePart
from epiloss.sources.tables import SparkPart, open_source
from epiloss.streaming.census import Census, TakeCensus
from epiloss.streaming.checkpoint import Checkpoint, digest
from epiloss.streaming.engines import Engine, resolve_engine
from epiloss.streaming.engines.base import Task
from epiloss.streaming.from_tally import audit_of_tally, learn_from_sample, learn_juries
from epiloss.streaming.passes import Pass, PassResult
from epiloss.streaming.reader import Reader, reader, score_width
from epiloss.streaming.roles import Roles, check_types, choose_roles
from epiloss.streaming.sampling import (
    Sample,
    capacity,
    check_untyped,
    is_uneven,
    limit_of,
    no_rows,
    read_memory,
    read_sample,
    without_named_columns,
)
from epiloss.streaming.score_pass import ScoreSum, TakeScore
from epiloss.streaming.survey import Survey, TakeSurvey
from epiloss.streaming.tally import TakeTally


@dataclass(frozen=True)
class Columns:
    """The columns that the user names, by what they are for."""

    label: str
    scores: tuple[str, ...]
    features: tuple[str, ...] | None
    exclude: tuple[str, ...]
    subgroups: tuple[str, ...]
    sample_weight: str | None
    clusters: str | None
    row_id: str | None
    display: tuple[str, ...]


@limited_threads()
def audit_table(
    source: Any,
    *,
    label: str,
    score: str | Sequence[str],
    features: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] = (),
    subgroups: str | Sequence[str] = (),
    sample_weight: str | None = None,
    clusters: str | None = None,
    row_id: str | None = None,
    display: str | Sequence[str] = (),
    engine: Any = "local",
    memory: int | float | str = "2GB",
    checkpoint: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Audit:
    """Audit files or a table, whose columns are given by name; they may be larger than memory.

    The data are read in passes, of which only a sample is kept: regions are learned on a part of it,
    and all other rows are counted in them.

    Parameters
    ----------
    source : path, paths, folder, pattern or table
        Parquet, CSV (also compressed) or Arrow files; or a pyarrow, pandas, polars, duckdb, Hugging
        Face, dask or Spark table.
    label : str
        Column of labels.
    score : str or sequence of str
        Column of scores, or one for each class.
    features : sequence of str, optional
        Columns of features; by default all columns without another use.
    exclude : sequence of str
        Columns to ignore.
    subgroups : str or sequence of str
        Columns of groups that you know, each audited by itself.
    sample_weight, clusters : str, optional
        Columns of weights, and of clusters (patients, users) whose rows depend on each other.
    row_id : str, optional
        Column that identifies rows; by default they are told apart by score and features.
    display : str or sequence of str
        Columns to show of rows in reports.
    engine : {"local", "memory", "dask", "spark", "ray"}, address, dask Client or SparkSession
        Where the data are read; the result does not depend on it.
    memory : int or str
        Memory limit: it bounds the sample that is kept.
    checkpoint : path, optional
        Folder for what the passes have counted so far, from which a killed run continues.
    **options
        Further options of :func:`epiloss.audit`. ``n_jobs`` is the number of processes.

    Returns
    -------
    Audit
        As :func:`epiloss.audit`.

    See Also
    --------
    audit : the same for arrays and data frames.

    Examples
    --------
    >>> import epiloss
    >>> from epiloss.simulate import Sigmoid
    >>> sample = Sigmoid(perturbation="step").sample(2_000)
    >>> table = {"y": sample.y, "p": sample.scores, "x0": sample.X[:, 0], "x1": sample.X[:, 1]}
    >>> import pyarrow
    >>> result = epiloss.audit_table(pyarrow.table(table), label="y", score="p")
    >>> result.n_samples
    2000
    """
    own = ("label", "score", "features", "exclude", "subgroups", "sample_weight", "clusters", "row_id")
    chosen = read_options(options, "audit_table", (*own, "display", "engine", "memory", "checkpoint"))
    columns = Columns(
        label=_one_name("label", label),
        scores=_names("score", score),
        features=None if features is None else _names("features", features),
        exclude=_names("exclude", exclude),
        subgroups=_names("subgroups", subgroups),
        sample_weight=_optional_name("sample_weight", sample_weight),
        clusters=_optional_name("clusters", clusters),
        row_id=_optional_name("row_id", row_id),
        display=_names("display", display),
    )
    if not columns.scores:
        raise OptionError("score must name at least one column, got none.")
    limit = read_memory(memory)
    opened = open_source(source)
    roles = _roles(opened, columns)
    if any(isinstance(part, SparkPart) for part in opened.parts) and engine in (None, "local"):
        engine = "spark"
    kept = None if checkpoint is None else Checkpoint(checkpoint, _run_facts(columns, chosen, limit))
    with (
        resolve_engine(engine, chosen.n_jobs) as running,
        nullcontext() if kept is None else kept.blamed(),
    ):
        runner = Runner(opened, running, kept, chosen.verbose)
        return _audited(runner, opened, roles, columns, chosen, limit)


def _one_name(option: str, given: Any) -> str:
    if not isinstance(given, str):
        raise OptionError(
            f"{option} must name a column, got {type(given).__name__}. For arrays use epiloss.audit."
        )
    return given


def _optional_name(option: str, given: Any) -> str | None:
    return None if given is None else _one_name(option, given)


def _names(option: str, given: Any) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else () if given is None else given
    if not isinstance(names, list | tuple):
        return (_one_name(option, given),)
    return tuple(_one_name(option, name) for name in names)


def _roles(source: Source, columns: Columns) -> Roles:
    roles = choose_roles(source.schema, **vars(columns))
    check_types(source.schema, roles)
    return roles


def _run_facts(columns: Columns, options: Options, memory: int) -> dict[str, Any]:
    reading = dict(vars(options.reading))
    facts = {"columns": vars(columns), "options": options.to_dict(), "memory": memory}
    return facts | {"rule": options.rule.name, "reading": reading}


@dataclass
class Runner:
    """Runs passes over a source, from where a checkpoint says that they were left."""

    source: Source
    engine: Engine
    checkpoint: Checkpoint | None
    verbose: bool | None = None
    offsets: Mapping[str, int] | None = None  # the number of each part's first row

    def run(self, work: Pass[Any], inputs: str = "", n_rows: int | None = None) -> Any:
        """Return the merged result of a pass over all parts."""
        parts = {part.identity: part for part in self.source.parts}
        done: set[str] = set()
        result: PassResult | None = None
        wrong: list[RowsError] = []
        if self.checkpoint is not None:
            done, result = self.checkpoint.load(work, inputs, parts)
        offsets = self.offsets or {}
        tasks: list[Task] = [
            (part, offsets.get(identity, 0)) for identity, part in parts.items() if identity not in done
        ]
        with counted(work.name, n_rows or self.source.n_rows, self.verbose) as advance:
            if result is not None:
                advance(result.n_rows)
            try:
                for identities, found in self.engine.run(work, tasks) if tasks else ():
                    if isinstance(found, RowsError):
                        wrong.append(found)
                        continue
                    result = found if result is None else result.merge(found)
                    done.update(identities)
                    advance(found.n_rows)
                    if self.checkpoint is not None:
                        self.checkpoint.save(work, inputs, done, result)
            finally:
                if self.checkpoint is not None and result is not None:
                    self.checkpoint.save(work, inputs, done, result, now=True)
        if wrong:
            raise RowsError.merged(wrong)
        if result is None:
            raise no_rows()
        return result

    def number_rows(self, census: Census) -> None:
        """Give the rows of the whole data numbers, part by part."""
        counts = [census.parts.get(part.identity, 0) for part in self.source.parts]
        starts = np.cumsum([0, *counts]).tolist()
        self.offsets = {
            part.identity: start for part, start in zip(self.source.parts, starts[:-1], strict=True)
        }


def _audited(
    runner: Runner, source: Source, roles: Roles, columns: Columns, options: Options, memory: int
) -> Audit:
    census: Census = runner.run(TakeCensus(roles, options.reading.drop_missing))
    if census.n_rows == census.n_unlabelled:
        raise no_rows()
    runner.number_rows(census)
    read, remarks = _reader(source, roles, options.reading, census)
    options.check_task(read.task)
    if len(census.labels) < 2:
        raise _one_class(runner, TakeScore(read, options.rule), census)
    n_rows = census.n_rows - census.n_weightless
    room = capacity(read, memory)
    work = TakeSurvey(
        read, options.rule, limit_of(room, n_rows), 2 * room + 100, with_scores=n_rows > room
    )
    survey, again = _surveyed(runner, work, n_rows, room)
    lost = n_rows - survey.n_rows - survey.n_missing
    if lost and roles.weight is None:
        raise _changed(n_rows, survey.n_rows + survey.n_missing)
    if survey.n_rows == 0:
        raise no_rows()
    remarks += [*again, *clipped_remark(survey.n_clipped)]
    if survey.n_missing:
        remarks.append(dropped_remark(survey.n_missing, census.n_rows))
    remarks += weightless_remarks(census.n_weightless, census.n_weightless + max(lost, 0))
    sample, read, more = _sample(survey, read, source, columns)
    problem = sample.problem.remarking(*remarks, *more, *remarks_on(sample.problem))
    sample = replace(sample, problem=problem, by_place=bool(again))
    _check_two_classes(sample, census)
    display = _display(sample, roles)
    in_place = replace(options, n_jobs=None)
    if n_rows <= room:
        return audit_problem(without_equal_weights(problem), options, display)
    alone = _only_by_sample(read)
    if alone is not None:
        text = f"{alone}: audited on a sample of {len(sample.keys):,} of {n_rows:,} rows."
        return audit_problem(problem.remarking(Remark("sample-only", text)), options, display)
    learned, learners = learn_from_sample(sample, survey, in_place, work.limit)
    keys = digest([sample.keys.tolist()[:: max(len(sample.keys) // 100, 1)], n_rows])
    juries = learn_juries(sample, options, survey.n_rows)
    tally = runner.run(TakeTally(read, options.rule, learned, juries), keys, n_rows)
    if tally.n_rows != survey.n_rows:
        raise _changed(survey.n_rows, tally.n_rows)
    return audit_of_tally(sample, learned, learners, juries, tally, options, display)


def _sample(
    survey: Survey, read: Reader, source: Source, columns: Columns
) -> tuple[Sample, Reader, list[Remark]]:
    """Return the sample, the reader that knows its categories, and what to remark on its columns."""
    numbered = not any(isinstance(part, SparkPart) for part in source.parts)
    sample, read = read_sample(survey, read, numbered=numbered)
    if all(isinstance(part, FilePart) and part.kind == "csv" for part in source.parts):
        names = {part.name for part in source.parts}
        check_untyped(read.columns, sample.table, names.pop() if len(names) == 1 else "the data")
    if columns.features is not None:
        return sample, read, []
    return without_named_columns(sample, read)


def _changed(before: int, after: int) -> DataError:
    return DataError(
        f"the data must be the same each time they are read, got {before:,} rows and then {after:,}. "
        "Write them to files first, and audit these."
    )


def _reader(
    source: Source, roles: Roles, reading: Reading, census: Census
) -> tuple[Reader, list[Remark]]:
    """Return the reader for the whole data, and what to remark."""
    width = score_width(source.schema, roles, source.widths)
    n_columns = width or len(roles.scores)
    labels = _whole(census.labels)
    named = read_classes(
        None if reading.classes is None else [_meant(labels, one) for one in reading.classes],
        max(n_columns, 2),
    )
    names = encode_labels(np.array(labels, object), n_columns, named)[0]
    pos_label = None if reading.pos_label is None else _meant(names, reading.pos_label)
    positive = positive_class(names, pos_label)
    task, chosen = task_and_remarks(replace(reading, pos_label=pos_label), names, n_columns, named)
    remarks = [Remark("source", text) for text in source.remarks]
    remarks += [_left_out(source.schema.field(name)) for name in roles.identifiers]
    remarks += chosen
    if roles.weight is not None and census.largest_weight == 0:
        raise DataError("weights must not all be 0. Leave sample_weight out for equal weights.")
    read = reader(
        source.schema,
        roles,
        source.widths,
        task=task,
        classes=names,
        positive=positive,
        largest_weight=None if roles.weight is None else census.largest_weight,
        subgroups={name: tuple(sorted(found)) for name, found in census.subgroups.items()},
        drop_missing=reading.drop_missing,
        logits=reading.logits,
    )
    return read, remarks


def _left_out(field: Any) -> Remark:
    """Say why a column that the data mark is left out."""
    if mark_of(field) == INDEX:
        return index_remark(field.name)
    text = f"column {field.name!r} is an identifier and is not used as a feature."
    return Remark("identifier-left-out", text)


def _one_class(runner: Runner, work: TakeScore, census: Census) -> DataError:
    """Return what to say of data of one class, with their score."""
    error = OneClassError(next(iter(_whole(census.labels))), census.n_rows - census.n_unlabelled)
    found: ScoreSum = runner.run(work, "score", census.n_rows)
    return error.scored(work.rule.name, found.losses / found.weights)


def _whole(labels: Mapping[Any, int]) -> list[Any]:
    """Return the labels; numbers without a fraction are whole numbers, as CSV does not tell."""
    if all(isinstance(label, float) and label.is_integer() for label in labels):
        return [int(label) for label in labels]
    return list(labels)


def _meant(labels: Sequence[Any], given: Any) -> Any:
    """Return the label that is meant; on a command line, all are texts."""
    return label_named(labels, given) if isinstance(given, str) and given not in labels else given


def _surveyed(runner: Runner, work: TakeSurvey, n_rows: int, room: int) -> tuple[Survey, list[Remark]]:
    """Draw the sample by what the rows hold; where they repeat too much, by their numbers."""
    survey: Survey = runner.run(work, f"{work.limit}", n_rows)
    if n_rows <= room or not is_uneven(survey, work.limit):
        return survey, []
    if work.reader.roles.clusters is not None:
        n = 0 if survey.sample is None else survey.sample.num_rows
        if 0 < n <= 2 * room:
            return survey, []
        raise DataError(
            "clusters must be small beside the sample, and these are not: whole ones do not fit. Give "
            "more memory, or subgroups= instead of clusters=."
        )
    if any(isinstance(part, SparkPart) for part in runner.source.parts):
        raise DataError(
            "rows repeat themselves so much that no sample can be drawn by what they hold. Name a "
            "column that tells rows apart as row_id."
        )
    again: Survey = runner.run(replace(work, by_place=True), f"{work.limit} by place", n_rows)
    text = "rows repeat themselves, so the sample was drawn by their places in the data."
    return again, [Remark("sampled-by-place", text)]


def _check_two_classes(sample: Sample, census: Census) -> None:
    if len(np.unique(sample.problem.labels)) < 2:
        raise DataError(
            f"the sample of {len(sample.keys):,} of {census.n_rows:,} rows holds one class only, too "
            "rare a case to learn from. Give more memory, or drop some rows of the frequent class and "
            "weight the others."
        )


def _only_by_sample(read: Reader) -> str | None:
    """Say why more than the sample cannot be added up, if so."""
    if read.roles.clusters is not None:
        return "clusters must be whole to be counted"
    if read.task == "joint":
        return "task 'joint' conditions on whole vectors"
    return None


def _display(sample: Sample, roles: Roles) -> Display | None:
    if not roles.display:
        return None
    rows = sample.problem.rows
    columns = sample.displayed(roles.display)
    if rows is None:
        return Display(columns)
    place = {int(row): at for at, row in enumerate(rows)}
    return Display({name: _ByNumber(values, place) for name, values in columns.items()})


@dataclass(frozen=True)
class _ByNumber:
    """Values of sampled rows, found by the rows' numbers in the whole data."""

    values: Any
    place: Mapping[int, int]

    def __getitem__(self, row: int) -> Any:
        return self.values[self.place[int(row)]]
