"""Logs of Inspect (.eval and .json): the correctness of answers, and the confidence in them.

If samples were run in several epochs with equal confidences, each has several labels, so that the
grouping loss can be measured. If confidences differ between epochs, the epochs of a sample form a
cluster.
"""

from __future__ import annotations

import json
import math
import os
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from epiloss.errors import DataError, OptionError, printable
from epiloss.sources.arrow import arrow
from epiloss.sources.csv import beginning
from epiloss.sources.files import file_errors
from epiloss.sources.logs.base import Fields, Log, as_number, as_table, plain_text, shown_names
from epiloss.sources.logs.names import CONFIDENCE, CORRECT, first_of
from epiloss.sources.size_limits import check_claim

_MAX_JSON = 2**30  # bytes of a JSON log, which is read as a whole
_MAX_SAMPLE = 2**27  # bytes of a sample
_ZSTD = 93  # the compression method in ZIP archives
_LOG = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*"')
_VALUES = {"C": 1.0, "I": 0.0, "N": 0.0, "P": 0.5}  # as Inspect's own metrics count them
_BROKEN = (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError)


@dataclass(frozen=True)
class _Answer:
    """One epoch of a sample: correctness, confidence, and the fields of the question."""

    key: tuple[str, str]  # log and sample
    epoch: float
    correct: float
    confidence: float
    fields: Mapping[str, Any]
    answer: str | None


def is_inspect_archive(path: str) -> bool:
    """Return whether a file is an .eval log, according to the names of its members."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(map(_is_sample, archive.namelist()))
    # zipfile raises NotImplementedError for newer versions of the format
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def is_inspect_json(path: str) -> bool:
    """Return whether a file begins like a JSON log of Inspect."""
    return _LOG.match(beginning(path, None)[1]) is not None


def _is_sample(name: str) -> bool:
    return name.startswith("samples/") and name.endswith(".json")


def read_inspect(paths: Sequence[str], scorer: str | None) -> Log:
    """Return the samples of all logs, with the confidence recorded by a scorer."""
    answers: list[_Answer] = []
    sources: set[str] = set()
    n_partial = n_unscored = 0
    used = scorer
    for path in paths:
        for sample in _samples(path):
            scores = sample.get("scores")
            if not isinstance(scores, Mapping) or not scores:
                n_unscored += 1
                continue
            used = used or plain_text(next(iter(scores)))
            score = _chosen_score(scores, used, path)
            correct = _correctness(score)
            if correct is None:
                n_unscored += 1
            elif 0 < correct < 1:
                n_partial += 1
            else:
                confidence, source = _confidence(score, sample, path)
                sources.add(source)
                answers.append(_answer(path, sample, score, correct, confidence))
    if not answers:
        raise DataError(
            printable(
                f"{paths[0]} must have samples that are scored as correct or incorrect (1 or 0), got "
                "none. Check that the evaluation is finished and has a scorer."
            )
        )
    answers.sort(key=lambda one: (one.key, one.epoch))  # logs are in the order in which samples ended
    remarks = [_summary(len(answers), used, sources), *_left_out(n_unscored, n_partial)]
    return _log(answers, remarks, several=len(paths) > 1)


def _log(answers: Sequence[_Answer], remarks: list[str], *, several: bool) -> Log:
    """Return one row per sample with all its labels, or one per epoch if confidences differ."""
    epochs: dict[tuple[str, str], list[_Answer]] = defaultdict(list)
    for one in answers:
        epochs[one.key].append(one)
    most = max(map(len, epochs.values()))
    alike = all(len({one.confidence for one in found}) == 1 for found in epochs.values())
    repeated = most > 1 and alike
    rows = [found[0] for found in epochs.values()] if repeated else list(answers)
    fields = Fields()
    for row, one in enumerate(rows):
        for name, value in one.fields.items():
            fields.add(row, name, value)
        if one.answer is not None and not repeated:
            fields.add(row, "answer", one.answer)
        if several:
            fields.add(row, "log", one.key[0])
    columns, left_out = fields.columns(len(rows))
    if left_out:
        remarks.append(
            f"fields that are neither numbers nor strings were left out: {shown_names(left_out)}."
        )
    columns["sample"] = [" ".join(one.key[not several :]) for one in rows]
    columns["confidence"] = [one.confidence for one in rows]
    clusters = None
    if repeated:
        columns["correct"] = [
            [one.correct for one in found] + [math.nan] * (most - len(found))
            for found in epochs.values()
        ]
        remarks.append(f"the epochs of each sample, up to {most}, are read as repeated labels.")
    else:
        columns["correct"] = [int(one.correct) for one in rows]
    if most > 1 and not repeated:
        clusters = "sample"
        remarks.append(
            "confidences differ between the epochs of a sample, so each epoch is a row, and each "
            "sample is a cluster."
        )
    display = () if clusters else ("sample",)
    texts = tuple(map(printable, remarks))
    table = as_table(columns)
    return Log(table, "correct", ("confidence",), "binary", None, clusters, display, repeated, texts)


def _summary(n: int, scorer: str | None, sources: set[str]) -> str:
    """Return the remark on how the log was read."""
    return (
        f"read as a log of Inspect: {n:,} scored samples of scorer {scorer!r}, the score is "
        f"{' or '.join(sorted(sources))}."
    )


def _left_out(n_unscored: int, n_partial: int) -> Iterator[str]:
    if n_unscored:
        yield f"samples left out because they have no score: {n_unscored:,}."
    if n_partial:
        yield f"samples left out because they are neither correct nor incorrect: {n_partial:,}."


def _answer(
    path: str, sample: Mapping[str, Any], score: Mapping[str, Any], correct: float, confidence: float
) -> _Answer:
    given = score.get("answer")
    metadata = sample.get("metadata")
    fields = {"input": _text_of(sample.get("input")), "choices": sample.get("choices")}
    known = metadata if isinstance(metadata, Mapping) else {}
    own = {f"metadata.{name}": value for name, value in known.items()}
    key = (plain_text(path), plain_text(sample.get("id", "")))
    answer = given if isinstance(given, str) else None
    epoch = sample.get("epoch")
    number = as_number(epoch) if isinstance(epoch, int | float) else 0.0
    return _Answer(key, number, correct, confidence, {**fields, **own}, answer)


def _text_of(given: Any) -> str | None:
    """Return the input as text; for a chat, the text of the user's messages."""
    if isinstance(given, str):
        return given
    if not isinstance(given, list):
        return None
    messages = [one for one in given if isinstance(one, Mapping) and one.get("role") == "user"]
    texts = [one["content"] for one in messages if isinstance(one.get("content"), str)]
    for one in messages:
        if isinstance(one.get("content"), list):
            parts = [part for part in one["content"] if isinstance(part, Mapping)]
            texts += [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return "\n".join(texts) or None


def _chosen_score(scores: Mapping[str, Any], scorer: str, path: str) -> Mapping[str, Any]:
    if scorer not in scores:
        raise OptionError(
            printable(
                f"scorer must be one of {shown_names(list(scores), 10)}, the scorers in {path}, got "
                f"{scorer!r}. Leave it out to use the first."
            )
        )
    score = scores[scorer]
    return score if isinstance(score, Mapping) else {"value": score}


def _correctness(score: Mapping[str, Any]) -> float | None:
    """Return 1 for a correct answer, 0 for a wrong one, and None if it is unknown."""
    value = score.get("value")
    if isinstance(value, Mapping):
        value = first_of(value, CORRECT)
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        number = as_number(value)
        return number if 0 <= number <= 1 else None
    return _VALUES.get(value) if isinstance(value, str) else None


def _confidence(score: Mapping[str, Any], sample: Mapping[str, Any], path: str) -> tuple[float, str]:
    """Return the confidence in an answer, and where it is recorded."""
    places = {
        "the scorer's metadata": score.get("metadata"),
        "the score's value": score.get("value"),
        "the sample's store": sample.get("store"),
        "the sample's metadata": sample.get("metadata"),
    }
    for place, known in places.items():
        found = first_of(known, CONFIDENCE) if isinstance(known, Mapping) else None
        if isinstance(found, int | float) and not isinstance(found, bool):
            return as_number(found), f"the confidence in {place}"
    probability = _of_tokens(sample.get("output"))
    if probability is not None:
        return probability, "the probability of all tokens of the answer"
    raise DataError(
        printable(
            f"sample {sample.get('id')!r:.40} of {path} must have a confidence, got none. Record it in "
            "the scorer, Score(..., metadata={'confidence': p}), or request log-probabilities with "
            "GenerateConfig(logprobs=True)."
        )
    )


def _of_tokens(output: Any) -> float | None:
    """Return the product of the probabilities of an answer's tokens; None if unknown."""
    try:
        tokens = output["choices"][0]["logprobs"]["content"]
        total = math.fsum(float(one["logprob"]) for one in tokens)
    except (TypeError, KeyError, IndexError, ValueError, OverflowError):
        return None
    return math.exp(min(total, 0.0)) if tokens else None


def _samples(path: str) -> Iterator[Mapping[str, Any]]:
    with file_errors(path, _BROKEN):
        if is_inspect_archive(path):
            yield from _of_archive(path)
        else:
            yield from _of_json(path)


def _of_json(path: str) -> Iterator[Mapping[str, Any]]:
    if os.path.getsize(path) > _MAX_JSON:
        raise DataError(
            printable(
                f"{path} must have at most {_MAX_JSON:,} bytes, got {os.path.getsize(path):,}. Convert "
                "it: inspect log convert --to eval."
            )
        )
    with open(path, "rb") as file:
        log = _parsed(file.read(), path)
    samples = log.get("samples") if isinstance(log, Mapping) else None
    if not isinstance(samples, list):
        raise DataError(printable(f"{path} has no samples. Run the evaluation with its samples logged."))
    for one in samples:
        yield _as_sample(one, path)


def _of_archive(path: str) -> Iterator[Mapping[str, Any]]:
    with zipfile.ZipFile(path) as archive:
        members = [one for one in archive.infolist() if _is_sample(one.filename)]
        for one in sorted(members, key=lambda member: member.filename):
            name = f"{one.filename} of {path}"
            if one.file_size > _MAX_SAMPLE:
                raise DataError(
                    printable(
                        f"{name} must have at most {_MAX_SAMPLE:,} bytes, got {one.file_size:,}. Remove "
                        "the sample from the log."
                    )
                )
            check_claim(name, one.file_size, one.compress_size, "Write the log again.")
            yield _as_sample(_parsed(_content(archive, one, path), name), name)


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: str) -> bytes:
    """Return the bytes of a member; Zstandard is read with Arrow, as Python supports it since 3.14."""
    if member.compress_type != _ZSTD:
        with archive.open(member) as stream:
            return stream.read(member.file_size)
    with open(path, "rb") as file:
        file.seek(member.header_offset)
        header = file.read(30)
        lengths = (int.from_bytes(header[place : place + 2], "little") for place in (26, 28))
        file.seek(member.header_offset + 30 + sum(lengths))
        packed = file.read(member.compress_size)
    pa = arrow()
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        content: bytes = stream.read(member.file_size)
    if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile("a member is damaged")
    return content


def _parsed(content: bytes, name: str) -> Any:
    with _as_json(name):
        return json.loads(content)


@contextmanager
def _as_json(name: str) -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise DataError(printable(f"{name} has values nested too deeply. Remove them.")) from None
    except ValueError as error:  # includes invalid UTF-8, and numbers that are too long
        reason = getattr(error, "msg", "") or type(error).__name__
        raise DataError(
            printable(f"{name} is not valid JSON: {reason}. Check that it is complete.")
        ) from None


def _as_sample(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DataError(
            printable(
                f"a sample of {name} must be a JSON object, got {value!r:.20}. Write the log again."
            )
        )
    return value
