"""An audit of data that are read in passes, of which only a sample is ever in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epiloss.auditing.result import Audit
from epiloss.auditing.run import measured
from epiloss.errors import DataError, OptionError, RowsError
from epiloss.estimation.planning import Plan
from epiloss.input.checks import (
    clipped_remark,
    dropped_remark,
    remarks_on,
    task_and_remarks,
    weightless_remarks,
    without_equal_weights,
)
from epiloss.input.labels import encode_labels, label_named, positive_class, read_classes
from epiloss.input.pandas_metadata import index_remark
from epiloss.input.problem import OneClassError
from epiloss.input.row_display import Display
from epiloss.scoring import ScoringRule
from epiloss.sources.arrow import INDEX, mark_of
from epiloss.sources.base import Source
from epiloss.sources.files import FilePart
from epiloss.sources.tables import SparkPart, open_source
from epiloss.streaming.checkpoint import Checkpoint, digest
from epiloss.streaming.engines import Engine, resolve_engine
from epiloss.streaming.engines.base import Task
from epiloss.streaming.from_tally import audit_of_tally, freeze
from epiloss.streaming.passes import (
    Census,
    Pass,
    PassResult,
    Survey,
    TakeCensus,
    TakeSurvey,
    TakeTally,
)
from epiloss.streaming.progress import progress
from epiloss.streaming.reader import Reader, Roles, check_types, choose_roles, reader, score_width
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


@dataclass(frozen=True)
class Columns:
    """What the user names: columns of the data, and what they mean."""

    label: str
    scores: Sequence[str]
    features: Sequence[str] | None
    exclude: Sequence[str]
    groups: str | None
    sample_weight: str | None
    clusters: str | None
    row_id: str | None
    display: Sequence[str]
    task: str | None
    pos_label: Any
    classes: Sequence[Any] | None
    drop_missing: bool
    logits: bool


def named_columns(X: Any, *, label: str, scores: Any, display: Any, **others: Any) -> Columns:
    """Check that everything is given by name, and X is there."""
    if X is None:
        raise OptionError(
            f"with labels named ({label!r}), X must be the files or the table that has them, got None."
        )
    names = [scores] if isinstance(scores, str) else scores
    for option in ("features", "exclude"):
        if isinstance(others[option], str):
            others[option] = [others[option]]
    shown = [display] if isinstance(display, str) else () if display is None else display
    for option, given in {"y_prob": names, "display": shown}.items():
        if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
            raise OptionError(
                f"with labels named ({label!r}), {option} must name columns too, got "
                f"{type(given).__name__}. Pass arrays for all, or names for all."
            )
    if not names:
        raise OptionError("y_prob must name at least one column of scores, got none.")
    for option in ("groups", "sample_weight", "clusters", "row_id"):
        if not isinstance(others[option], str | None):
            raise OptionError(
                f"with labels named ({label!r}), {option} must name a column too, got "
                f"{type(others[option]).__name__}. Pass arrays for all, or names for all."
            )
    return Columns(label=label, scores=tuple(names), display=tuple(shown), **others)


def audit_stream(
    X: Any,
    columns: Columns,
    plan: Plan,
    rule: ScoringRule,
    options: Mapping[str, Any],
    *,
    engine: Any,
    memory: int | float | str,
    checkpoint: Any,
) -> Audit:
    """Audit files or a table, whose columns are given by name, in at most ``memory`` bytes."""
    limit = read_memory(memory)
    source = open_source(X)
    roles = _roles(source, columns)
    if any(isinstance(part, SparkPart) for part in source.parts) and engine in (None, "local"):
        engine = "spark"
    kept = None if checkpoint is None else Checkpoint(checkpoint, _run_facts(columns, options, limit))
    with (
        resolve_engine(engine, plan.n_jobs) as running,
        nullcontext() if kept is None else kept.blamed(),
    ):
        runner = Runner(source, running, kept)
        return _audited(runner, source, roles, columns, plan, rule, options, limit)


def _roles(source: Source, columns: Columns) -> Roles:
    roles = choose_roles(
        source.schema,
        label=columns.label,
        scores=columns.scores,
        features=columns.features,
        exclude=columns.exclude,
        display=columns.display,
        groups=columns.groups,
        sample_weight=columns.sample_weight,
        clusters=columns.clusters,
        row_id=columns.row_id,
    )
    check_types(source.schema, roles)
    return roles


def _run_facts(columns: Columns, options: Mapping[str, Any], memory: int) -> dict[str, Any]:
    return {"columns": vars(columns), "options": dict(options), "memory": memory}


@dataclass
class Runner:
    """Runs passes over a source, from where a checkpoint says that they were left."""

    source: Source
    engine: Engine
    checkpoint: Checkpoint | None
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
        with progress(work.name, n_rows or self.source.n_rows) as advance:
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
    runner: Runner,
    source: Source,
    roles: Roles,
    columns: Columns,
    plan: Plan,
    rule: ScoringRule,
    options: Mapping[str, Any],
    memory: int,
) -> Audit:
    census: Census = runner.run(TakeCensus(roles, columns.drop_missing))
    if census.n_rows == census.n_unlabelled:
        raise no_rows()
    runner.number_rows(census)
    read, warnings = _reader(source, roles, columns, census)
    if len(census.labels) < 2:
        raise _one_class(runner, TakeScore(read, plan, rule), census)
    options = {**options, "classes": [str(name) for name in read.classes]}
    n_rows = census.n_rows - census.n_weightless
    room = capacity(read, memory)
    work = TakeSurvey(
        read, plan, rule, limit_of(room, n_rows), 2 * room + 100, with_scores=n_rows > room
    )
    survey, again = _surveyed(runner, work, n_rows, room)
    lost = n_rows - survey.n_rows - survey.n_missing
    if lost and roles.weight is None:
        raise _changed(n_rows, survey.n_rows + survey.n_missing)
    if survey.n_rows == 0:
        raise no_rows()
    warnings += [*again, *clipped_remark(survey.n_clipped)]
    if survey.n_missing:
        warnings.append(dropped_remark(survey.n_missing, census.n_rows))
    warnings += weightless_remarks(census.n_weightless, census.n_weightless + max(lost, 0))
    numbered = not any(isinstance(part, SparkPart) for part in source.parts)
    sample, read = read_sample(survey, read, numbered=numbered)
    if all(isinstance(part, FilePart) and part.kind == "csv" for part in source.parts):
        names = {part.name for part in source.parts}
        check_untyped(read.columns, sample.table, names.pop() if len(names) == 1 else "the data")
    if columns.features is None:
        sample, read, left_out = without_named_columns(sample, read)
        warnings += left_out
    warnings += remarks_on(sample.problem)
    sample = replace(sample, problem=replace(sample.problem, warnings=tuple(warnings)))
    _check_two_classes(sample, census)
    display = _display(sample, roles)
    if n_rows <= room:
        return measured(without_equal_weights(sample.problem), plan, rule, options, display)
    alone = _only_by_sample(read)
    if alone is not None:
        remark = f"{alone}: audited on a sample of {len(sample.keys):,} of {n_rows:,} rows."
        problem = replace(sample.problem, warnings=(*sample.problem.warnings, remark))
        return measured(problem, plan, rule, options, display)
    frozen, learners = freeze(sample, survey, plan, rule, options["random_state"], work.limit)
    keys = digest([sample.keys.tolist()[:: max(len(sample.keys) // 100, 1)], n_rows])
    tally = runner.run(TakeTally(read, plan, rule, frozen), keys, n_rows)
    if tally.n_rows != survey.n_rows:
        raise _changed(survey.n_rows, tally.n_rows)
    return audit_of_tally(sample, frozen, learners, tally, plan, rule, options, display)


def _changed(before: int, after: int) -> DataError:
    return DataError(
        f"the data must be the same each time they are read, got {before:,} rows and then {after:,}. "
        "Write them to files first, and audit these."
    )


def _reader(source: Source, roles: Roles, columns: Columns, census: Census) -> tuple[Reader, list[str]]:
    """Return the reader for the whole data, and what to remark."""
    width = score_width(source.schema, roles, source.widths)
    n_columns = width or len(roles.scores)
    labels = _whole(census.labels)
    named = read_classes(
        None if columns.classes is None else [_meant(labels, one) for one in columns.classes],
        max(n_columns, 2),
    )
    names = encode_labels(np.array(labels, object), n_columns, named)[0]
    pos_label = None if columns.pos_label is None else _meant(names, columns.pos_label)
    positive = positive_class(names, pos_label)
    task, chosen = task_and_remarks(columns.task, names, n_columns, pos_label, named)
    warnings = list(source.remarks)
    warnings += [_left_out(source.schema.field(name)) for name in roles.identifiers]
    warnings += chosen
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
        groups=None if roles.groups is None else tuple(sorted(census.groups)),
        drop_missing=columns.drop_missing,
        logits=columns.logits,
    )
    return read, warnings


def _left_out(field: Any) -> str:
    """Say why a column that the data mark is left out."""
    if mark_of(field) == INDEX:
        return index_remark(field.name)
    return f"{field.name!r} tells rows apart and is no feature."


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


def _surveyed(runner: Runner, work: TakeSurvey, n_rows: int, room: int) -> tuple[Survey, list[str]]:
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
            "more memory, or groups= instead of clusters=."
        )
    if any(isinstance(part, SparkPart) for part in runner.source.parts):
        raise DataError(
            "rows repeat themselves so much that no sample can be drawn by what they hold. Name a "
            "column that tells rows apart as row_id."
        )
    again: Survey = runner.run(replace(work, by_place=True), f"{work.limit} by place", n_rows)
    return again, ["rows repeat themselves, so the sample was drawn by their places in the data."]


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
