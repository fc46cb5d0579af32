"""Audits of data that are read in passes; only a sample is kept in memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from epiloss._threads import limited_threads
from epiloss.auditing.result import Audit
from epiloss.auditing.run import audit_problem
from epiloss.errors import DataError, Remark
from epiloss.estimation.options import Options, read_options
from epiloss.input.checks import without_equal_weights
from epiloss.input.problem import OneClassError
from epiloss.input.row_display import Display
from epiloss.sources.bundles import bundled
from epiloss.sources.tables import SparkPart, open_source, with_query
from epiloss.streaming.build_reader import build_reader, integer_labels
from epiloss.streaming.census import Census, TakeCensus
from epiloss.streaming.checkpoint import Checkpoint, digest
from epiloss.streaming.columns import Columns
from epiloss.streaming.draw_sample import DrawnSample, data_changed, draw_sample
from epiloss.streaming.engines import resolve_engine
from epiloss.streaming.from_tally import audit_of_tally, learn_from_sample, train_twin_models
from epiloss.streaming.given_logs import (
    audit_repeated,
    columns_of_log,
    log_of,
    with_usual_columns,
)
from epiloss.streaming.reader import Layout, Reader
from epiloss.streaming.roles import choose_roles
from epiloss.streaming.runner import Runner, no_rows
from epiloss.streaming.sampling import capacity, read_memory
from epiloss.streaming.score_pass import ScoreSum, TakeScore
from epiloss.streaming.tally import TakeTally, Tally


@limited_threads()
def audit_table(
    source: Any,
    *,
    label: str | None = None,
    score: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] = (),
    subgroups: str | Sequence[str] = (),
    sample_weight: str | None = None,
    clusters: str | None = None,
    row_id: str | None = None,
    display: str | Sequence[str] = (),
    sql: str | None = None,
    engine: Any = "local",
    memory: int | float | str = "2GB",
    checkpoint: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Audit:
    """Audit files or a table, which may be larger than memory; columns are given by name.

    The data are read in several passes, and only a sample is kept in memory. Models and regions are
    learned on the sample, and all rows are evaluated.

    Parameters
    ----------
    source : path, paths, folder, pattern or table
        Parquet, CSV, JSON (also compressed) or Arrow files; a database file, with ``sql``; or a
        pyarrow, pandas, polars, duckdb, Hugging Face, dask or Spark table. Without ``label`` and
        ``score``, also logs of language models: samples of lm-evaluation-harness and logs of Inspect.
    label : str, optional
        Column of labels; by default that of a log, or the first column with a usual name such as
        ``correct``, ``is_correct`` or ``accuracy``.
    score : str or sequence of str, optional
        Column of scores, or one for each class; by default that of a log, or the first column with a
        usual name such as ``confidence``, ``probability`` or ``prob``.
    features : sequence of str, optional
        Columns of features; by default all columns that are not used otherwise.
    exclude : sequence of str
        Columns to ignore.
    subgroups : str or sequence of str
        Columns of known subgroups; each column is audited separately.
    sample_weight, clusters : str, optional
        Column of weights, and column of clusters (patients, users) whose rows depend on each other.
    row_id : str, optional
        Column that identifies rows; by default, score and features identify them.
    display : str or sequence of str
        Columns to show in reports.
    sql : str, optional
        Query whose rows are audited, if ``source`` is a DuckDB or SQLite database file.
    engine : {"local", "memory", "dask", "spark", "ray"}, address, dask Client or SparkSession
        Where the data are read; the result does not depend on it.
    memory : int or str
        Memory limit, which determines the size of the sample.
    checkpoint : path, optional
        Folder for intermediate results, from which an interrupted run resumes.
    **options
        Other options of :func:`epiloss.audit`. ``n_jobs`` is the number of processes.

    Returns
    -------
    Audit
        The same result as :func:`epiloss.audit`.

    See Also
    --------
    audit : the same for arrays and data frames.
    read_log : reads logs of language models, with options.
    RegionPlan : evaluates batches in regions that were learned once.
    extract : writes the scores and features of a neural network to a file.

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
    given = {
        "label": label,
        "score": score,
        "features": features,
        "exclude": exclude,
        "subgroups": subgroups,
        "sample_weight": sample_weight,
        "clusters": clusters,
        "row_id": row_id,
        "display": display,
    }
    log = log_of(source, label, score)
    if log is not None:
        columns_of_log(log, given, options)
    chosen = read_options(options, "audit_table", (*given, "sql", "engine", "memory", "checkpoint"))
    opened = None if log is None else open_source(log)
    if opened is None and (label is None or score is None):
        opened = with_usual_columns(open_source(with_query(source, sql)), given)
    columns, limit = Columns.read(**given), read_memory(memory)
    opened = bundled(open_source(with_query(source, sql)) if opened is None else opened)
    roles = choose_roles(opened.schema, **vars(columns))
    if log is not None and log.repeated and roles.label == log.label:
        return audit_repeated(log, roles, chosen)
    layout = Layout.of(opened, roles)
    room = capacity(layout, limit)
    chosen.check_rows(room if opened.n_rows is None else min(room, opened.n_rows))
    if any(isinstance(part, SparkPart) for part in opened.parts) and engine in (None, "local"):
        engine = "spark"
    kept = None if checkpoint is None else Checkpoint(checkpoint, _run_facts(columns, chosen, limit))
    with (
        resolve_engine(engine, chosen.n_jobs) as running,
        nullcontext() if kept is None else kept.explaining_errors(),
    ):
        runner = Runner(opened, running, kept, chosen.verbose)
        return _audited(runner, layout, columns, chosen, room)


def _run_facts(columns: Columns, options: Options, memory: int) -> dict[str, Any]:
    reading = dict(vars(options.reading))
    facts = {"columns": vars(columns), "options": options.to_dict(), "memory": memory}
    return facts | {"rule": options.rule.name, "reading": reading}


def _audited(runner: Runner, layout: Layout, columns: Columns, options: Options, room: int) -> Audit:
    """Take the census, draw a sample of about ``room`` rows at most, and audit all rows with it."""
    census: Census = runner.run(TakeCensus(layout.roles, options.reading.drop_missing))
    if census.n_rows == census.n_unlabelled:
        raise no_rows()
    options.check_rows(min(room, census.n_rows))
    runner.number_rows(census)
    read, remarks = build_reader(runner.source, layout, options.reading, census)
    options.check_task(read.task)
    if len(census.labels) < 2:
        raise _one_class(runner, TakeScore(read, options.rule), census)
    named = columns.features is not None
    drawn = draw_sample(runner, read, options.rule, census, room, remarks, features_named=named)
    problem, display = drawn.sample.problem, drawn.sample.display(layout.roles.display)
    if drawn.is_whole:
        return audit_problem(without_equal_weights(problem), options, display)
    reason = _why_sample_only(read)
    if reason is not None:
        n_sampled = len(drawn.sample.keys)
        text = f"{reason}: audited on a sample of {n_sampled:,} of {drawn.n_rows:,} rows."
        return audit_problem(problem.with_remarks(Remark("sample-only", text)), options, display)
    return _audit_all_rows(runner, drawn, options, display)


def _audit_all_rows(
    runner: Runner, drawn: DrawnSample, options: Options, display: Display | None
) -> Audit:
    """Learn from the sample, and evaluate all rows."""
    sample, survey = drawn.sample, drawn.survey
    learned, learners = learn_from_sample(sample, survey, options, drawn.limit)
    keys = digest([sample.keys.tolist()[:: max(len(sample.keys) // 100, 1)], drawn.n_rows])
    twin_models = train_twin_models(sample, options, survey.n_rows)
    work = TakeTally(drawn.read, options.rule, learned, twin_models)
    tally: Tally = runner.run(work, keys, drawn.n_rows)
    if tally.n_rows != survey.n_rows:
        raise data_changed(survey.n_rows, tally.n_rows)
    return audit_of_tally(sample, learned, learners, twin_models, tally, options, display)


def _one_class(runner: Runner, work: TakeScore, census: Census) -> DataError:
    """Return the error for data with one class, which includes their score."""
    label = next(iter(integer_labels(census.labels)))
    error = OneClassError(label, census.n_rows - census.n_unlabelled)
    found: ScoreSum = runner.run(work, "score", census.n_rows)
    return error.scored(work.rule.name, found.losses / found.weights)


def _why_sample_only(read: Reader) -> str | None:
    """Return why only the sample can be audited; None if all rows can."""
    if read.roles.clusters is not None:
        return "clusters cannot be evaluated in parts"
    if read.task == "joint":
        return "task 'joint' conditions on all scores of a row"
    return None
