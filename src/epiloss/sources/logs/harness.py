"""Samples of lm-evaluation-harness: log-likelihoods of choices are converted to probabilities.

``lm_eval --log_samples`` writes one line for each question and filter. ``filtered_resps`` holds the
log-likelihood of each choice, whose softmax gives the scores; ``target`` is the correct choice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from epiloss._typing import Floats
from epiloss.errors import DataError, OptionError, printable
from epiloss.sources.files import file_errors
from epiloss.sources.json_lines import json_objects
from epiloss.sources.logs.base import Fields, Log, as_table, plain_text, shown_names

KEYS = {"doc_id", "doc", "target", "resps", "filtered_resps"}  # required fields of each line
_MAX_CHOICES = 100  # with more choices, only the confidence is kept
_NAMED = re.compile(r"samples_(.+?)(_\d{4}-\d\d-\d\dT[^/]*)?\.jsonl?(\.\w+)?$")
_PLACES = re.compile(r"\[\s*\d+(\s*,\s*\d+)*\s*\]")
_QUOTED = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")
Golds = frozenset[int]  # the correct choices of a question


@dataclass(frozen=True)
class _Question:
    """One line: log-likelihoods and texts of the choices, and the target.

    ``correct`` is the accuracy that the harness itself reports, None if it does not.
    """

    place: str
    likelihoods: tuple[float, ...]
    choices: tuple[str, ...]
    target: str
    correct: bool | None


@dataclass
class _File:
    """The questions of one file and filter, and their documents."""

    path: str
    filters: list[str] = field(default_factory=list)
    questions: list[_Question] = field(default_factory=list)
    documents: list[tuple[Any, Any]] = field(default_factory=list)  # identifier and document

    @property
    def task(self) -> str:
        """The name of the task, taken from the file name."""
        found = _NAMED.search(self.path)
        return self.path if found is None else found[1]


def read_samples(paths: Sequence[str], wanted: str | None, *, length_normalized: bool) -> Log:
    """Return the questions of all files with the probabilities of their choices."""
    files = [_read(path, wanted, length_normalized) for path in paths]
    values = [_values(one, length_normalized) for file in files for one in file.questions]
    if not values:
        raise DataError(printable(f"{paths[0]} has no samples. Run lm_eval with --log_samples."))
    chosen = [int(one.argmax()) for one in values]
    golds: list[Golds | None] = []
    keys: dict[str, None] = {}
    for file in files:
        own = _golds(file.questions, chosen[len(golds) : len(golds) + len(file.questions)])
        golds += own or [None] * len(file.questions)
        keys |= dict.fromkeys(_answer_keys(file, own))
    columns, left_out = _columns(files, keys, chosen, [len(one) for one in values])
    summary = _summary(files, wanted, None in golds, length_normalized=length_normalized)
    remarks = tuple(map(printable, [summary, *_left_out(list(keys), left_out)]))
    questions = [one for file in files for one in file.questions]
    return _log(columns, [_softmax(one) for one in values], chosen, golds, questions, remarks)


def _columns(
    files: Sequence[_File], keys: Mapping[str, None], chosen: Sequence[int], widths: Sequence[int]
) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the fields of the questions without the answer keys, and the names of fields left out."""
    documents = [one for file in files for one in file.documents]
    columns, left_out = _fields(documents).columns(len(documents))
    columns = {name: values for name, values in columns.items() if name not in keys}
    columns["answer"] = [f"choice {one}" for one in chosen]
    if len(set(widths)) > 1:
        columns["n_choices"] = [float(width) for width in widths]
    if len(files) > 1:
        columns["task"] = [plain_text(file.task) for file in files for _ in file.questions]
    columns["doc_id"] = [plain_text(identifier) for identifier, _ in documents]
    return columns, left_out


def _fields(documents: Sequence[tuple[Any, Any]]) -> Fields:
    fields = Fields()
    for row, (_, document) in enumerate(documents):
        fields.add(row, "doc", document)
    return fields


def _log(
    columns: dict[str, list[Any]],
    scores: Sequence[Floats],
    chosen: Sequence[int],
    golds: Sequence[Golds | None],
    questions: Sequence[_Question],
    remarks: tuple[str, ...],
) -> Log:
    """Return a log with a score for each choice, or only the confidence if the target is unknown."""
    widest = max(map(len, scores))
    places = [next(iter(gold)) for gold in golds if gold is not None and len(gold) == 1]
    if len(places) == len(golds) and widest <= _MAX_CHOICES:
        names = [f"p{place}" for place in range(widest)]
        padded = [[*one.tolist(), *[0.0] * (widest - len(one))] for one in scores]
        columns |= {name: [row[place] for row in padded] for place, name in enumerate(names)}
        columns["target"] = places
        found = Log(as_table(columns), "target", tuple(names), "top-label", tuple(range(widest)))
        return replace(found, display=("doc_id",), remarks=remarks)
    columns["confidence"] = [float(one[place]) for one, place in zip(scores, chosen, strict=True)]
    columns["correct"] = [
        int(bool(one.correct) if gold is None else place in gold)
        for one, gold, place in zip(questions, golds, chosen, strict=True)
    ]
    return Log(as_table(columns), "correct", ("confidence",), display=("doc_id",), remarks=remarks)


def _read(path: str, wanted: str | None, length_normalized: bool) -> _File:
    """Read the lines of one filter: the wanted one, or the first one in the file."""
    found = _File(path)
    with file_errors(path):
        for number, line in json_objects(path):
            _add(found, line, f"line {number:,} of {path}", wanted, length_normalized)
    if wanted is not None and wanted not in found.filters:
        raise OptionError(
            printable(
                f"filter must be one of {shown_names(found.filters, 10)}, the filters in {path}, got "
                f"{wanted!r}. Leave it out to use the first."
            )
        )
    return found


def _add(
    file: _File, line: Mapping[str, Any], place: str, wanted: str | None, length_normalized: bool
) -> None:
    """Add a line to the questions if it has the right filter."""
    missing = KEYS - line.keys()
    if missing:
        raise DataError(
            printable(
                f"{place} must have the field {min(missing)!r} of samples of lm-evaluation-harness, got "
                "none. Read only files of one format together."
            )
        )
    used = plain_text(line.get("filter", "none"))
    if used not in file.filters:
        file.filters.append(used)
    if used == (file.filters[0] if wanted is None else wanted):
        file.questions.append(_question(line, place, length_normalized))
        file.documents.append((line["doc_id"], line["doc"]))


def _question(line: Mapping[str, Any], place: str, length_normalized: bool) -> _Question:
    answers = line["filtered_resps"]
    pairs = [_likelihood(one) for one in answers] if isinstance(answers, list) else []
    if len(pairs) < 2 or None in pairs:
        raise DataError(
            printable(
                f"{place} must have the log-likelihoods of two or more choices, got "
                f"{_what(answers)}. Use multiple-choice tasks; for generated answers, record a "
                "confidence: see 'Language models' in the documentation."
            )
        )
    numbers = [one for one in pairs if one is not None]
    texts = _choices(line.get("arguments"), len(numbers))
    if len(numbers) % 2 == 0 and "acc_mutual_info" in line:
        half = len(numbers) // 2  # the second half is without the question
        numbers, texts = numbers[:half], texts[:half]
    if any(math.isnan(one) for one in numbers) or max(numbers) == -math.inf:
        raise DataError(
            printable(f"{place} must have numeric log-likelihoods, got {numbers!s:.60}. Drop the line.")
        )
    target = plain_text(line["target"])
    said = line.get("acc_norm" if length_normalized else "acc")
    correct = bool(said) if isinstance(said, int | float) and said in (0, 1) else None
    return _Question(place, tuple(numbers), texts, target, correct)


def _what(answers: Any) -> str:
    if isinstance(answers, list) and answers and isinstance(answers[0], str):
        return f"the text {answers[0]!r:.40}"
    n = len(answers) if isinstance(answers, list) else 0
    return f"{n} answer{'' if n == 1 else 's'}"


def _likelihood(answer: Any) -> float | None:
    """Return the log-likelihood from a pair (log-likelihood, is greedy); None for anything else."""
    if not isinstance(answer, list) or len(answer) != 2 or isinstance(answer[0], bool):
        return None
    try:
        return float(answer[0])
    except (TypeError, ValueError, OverflowError):
        return None


def _choices(arguments: Any, n: int) -> tuple[str, ...]:
    """Return the texts of the choices, which are the continuations that the model scored."""
    given = list(arguments.values()) if isinstance(arguments, Mapping) else arguments
    if not isinstance(given, list) or len(given) != n:
        return ()
    pairs = [list(one.values()) if isinstance(one, Mapping) else one for one in given]
    texts = [one[1] if isinstance(one, list) and len(one) > 1 else None for one in pairs]
    return tuple(plain_text(one) for one in texts) if all(isinstance(one, str) for one in texts) else ()


def _values(question: _Question, length_normalized: bool) -> Floats:
    """Return the log-likelihoods, divided by the lengths of the choices if ``length_normalized``."""
    values = np.array(question.likelihoods)
    if not length_normalized:
        return values
    if len(question.choices) != len(values):
        raise DataError(
            printable(
                f"{question.place} must have the texts of its choices for length_normalized, got none. "
                "Leave out length_normalized."
            )
        )
    return values / [max(len(text.lstrip()), 1) for text in question.choices]


def _softmax(values: Floats) -> Floats:
    odds = np.exp(values - values.max())
    share: Floats = odds / odds.sum()
    return share


def _golds(questions: Sequence[_Question], chosen: Sequence[int]) -> list[Golds] | None:
    """Return the correct choices, by the first interpretation that agrees with the harness.

    A target is a string with either the index or the text of a choice. If neither agrees with the
    accuracies of the harness, None is returned and those are used as labels.
    """
    for read in (_as_places, _as_texts):
        found = [read(one) for one in questions]
        if all(
            gold is not None and (one.correct is None or (place in gold) == one.correct)
            for gold, one, place in zip(found, questions, chosen, strict=True)
        ):
            return [gold for gold in found if gold is not None]
    unknown = next((one for one in questions if one.correct is None), None)
    if unknown is not None:
        raise DataError(
            printable(
                f"{unknown.place} must have a target that is one of its {len(unknown.likelihoods)} "
                f"choices, or an accuracy of 0 or 1, got {unknown.target!r:.40}. Drop the line."
            )
        )
    return None


def _as_places(question: _Question) -> Golds | None:
    n = len(question.likelihoods)
    found = frozenset(int(one) for one in _parts(question.target) if re.fullmatch(r"\d{1,6}", one))
    return found if found and max(found) < n else None


def _as_texts(question: _Question) -> Golds | None:
    texts = [text.strip() for text in question.choices]
    wanted = {one.strip() for one in _parts(question.target)}
    return frozenset(texts.index(one) for one in wanted if one in texts) or None


def _parts(target: str) -> list[str]:
    """Return the elements of a list in Python notation; for other text, the text itself."""
    if not (target.startswith("[") and target.endswith("]")):
        return [target]
    if _PLACES.fullmatch(target):
        return re.findall(r"\d+", target)
    return [one or other for one, other in _QUOTED.findall(target)] or [target]


def _answer_keys(file: _File, golds: Sequence[Golds] | None) -> list[str]:
    """Return the fields that contain the correct choice, by index or text; they are no features."""
    fields, questions = _fields(file.documents), file.questions
    if golds is None:
        return [name for name in fields.names if _is_target(fields[name], questions)]
    places = {row: next(iter(gold)) for row, gold in enumerate(golds) if len(gold) == 1}
    texts = {
        row: questions[row].choices[place].strip()
        for row, place in places.items()
        if questions[row].choices
    }
    readings: tuple[Callable[[str], bool], ...] = (
        lambda name: _is_target(fields[name], questions),
        lambda name: _determines(fields[name], places),
        lambda name: _equals(fields[name], texts),
    )
    return [name for name in fields.names if any(is_key(name) for is_key in readings)]


def _is_target(values: Mapping[int, Any], questions: Sequence[_Question]) -> bool:
    return all(plain_text(value) == questions[row].target for row, value in values.items())


def _determines(values: Mapping[int, Any], places: Mapping[int, int]) -> bool:
    """Return whether values and correct choices correspond one to one."""
    pairs = {(plain_text(value), places.get(row)) for row, value in values.items()}
    if len(pairs) < 2 or None in {place for _, place in pairs}:
        return False
    return len(pairs) == len({value for value, _ in pairs}) == len({place for _, place in pairs})


def _equals(values: Mapping[int, Any], texts: Mapping[int, str]) -> bool:
    return bool(texts) and all(
        isinstance(value, str) and value.strip() == texts.get(row) for row, value in values.items()
    )


def _summary(
    files: Sequence[_File], wanted: str | None, by_harness: bool, *, length_normalized: bool
) -> str:
    """Return the remark on how the log was read."""
    widths = [len(one.likelihoods) for file in files for one in file.questions]
    fewest, most = min(widths), max(widths)
    choices = f"{most} choices" if fewest == most else f"{fewest} to {most} choices"
    text = f"read as samples of lm-evaluation-harness: {len(widths):,} questions with {choices} each"
    text += ", scores are the softmax of the log-likelihoods"
    text += " per character" if length_normalized else ""
    filters = list(dict.fromkeys(name for file in files for name in file.filters))
    if len(filters) > 1:
        used = [wanted] if wanted else list(dict.fromkeys(file.filters[0] for file in files))
        text += f", filter {shown_names(used)} of {shown_names(filters, 5)}"
    if by_harness:
        text += ", and labels are the accuracies of the harness"
    return f"{text}."


def _left_out(keys: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    if keys:
        yield f"the answer key is not used as a feature: {shown_names(keys)}."
    if others:
        yield f"fields that are neither numbers nor strings were left out: {shown_names(others)}."
