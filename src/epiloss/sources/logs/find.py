"""Detecting language-model logs by their content, and the usual columns of other files of answers."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from epiloss.errors import DataError, OptionError, printable
from epiloss.sources.addresses import local_name
from epiloss.sources.csv import beginning
from epiloss.sources.discovery import find_files
from epiloss.sources.files import file_errors
from epiloss.sources.json_lines import is_json
from epiloss.sources.logs.base import Log
from epiloss.sources.logs.harness import KEYS, read_samples
from epiloss.sources.logs.inspect_logs import is_inspect_archive, is_inspect_json, read_inspect
from epiloss.sources.logs.names import CONFIDENCE, CORRECT, find_name

HARNESS, INSPECT = "lm-evaluation-harness", "Inspect"
_KEYS = [json.dumps(key).encode() for key in sorted(KEYS - {"resps", "filtered_resps"})]
Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def read_log(
    source: Files,
    *,
    filter: str | None = None,
    scorer: str | None = None,
    length_normalized: bool = False,
) -> Log:
    """Read logs of language-model evaluations, to inspect them or to pass them to ``audit_table``.

    Samples of lm-evaluation-harness (``lm_eval --log_samples``) contain the log-likelihoods of the
    choices of each question; the scores are their softmax. Logs of Inspect (.eval, .json) contain the
    results of a scorer, with the confidence in its metadata. The format is detected from the content.

    Parameters
    ----------
    source : path, paths, folder or pattern
        The logs, all in one format.
    filter : str, optional
        The filter of lm-evaluation-harness; by default the first one in each file.
    scorer : str, optional
        The scorer of Inspect; by default the first one.
    length_normalized : bool
        Whether to divide log-likelihoods by the number of characters of the choice, as the metric
        ``acc_norm`` of lm-evaluation-harness does.

    Returns
    -------
    Log
        The rows as a table, with the columns of labels and scores.

    See Also
    --------
    audit_table : audits a log; it also reads log files directly, with the defaults.

    References
    ----------
    Gao et al., "A framework for few-shot language model evaluation", 2023 (lm-evaluation-harness).

    UK AI Security Institute, "Inspect AI: framework for large language model evaluations", 2024.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> sample = {"doc_id": 0, "doc": {"question": "2 + 2?"}, "target": "1", "resps": [],
    ...           "filtered_resps": [["-2.3", "False"], ["-0.1", "True"]], "filter": "none", "acc": 1.0}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "samples_sums.jsonl")
    ...     _ = path.write_text(json.dumps(sample))
    ...     log = read_log(path)
    >>> log
    <Log: 1 rows, 6 columns; label: target; score: p0, p1>
    """
    paths = _log_paths(source)
    kinds = {path: log_kind(path) for path in paths}
    unknown = next((path for path, kind in kinds.items() if kind is None), None)
    if unknown is not None:
        raise DataError(
            printable(
                f"logs must be samples of lm-evaluation-harness or of Inspect, got {unknown}, which "
                "is neither. Pass label= and score= to audit it as a table."
            )
        )
    if len(set(kinds.values())) > 1:
        got = " and ".join(sorted(map(str, set(kinds.values()))))
        raise DataError(f"logs must be in one format, got {got}. Read them separately.")
    is_harness = kinds[paths[0]] == HARNESS
    if is_harness and scorer is not None:
        raise OptionError(
            "scorer applies to logs of Inspect only, got samples of lm-evaluation-harness. Leave it out."
        )
    if not is_harness and (filter is not None or length_normalized):
        option = "length_normalized" if filter is None else "filter"
        raise OptionError(
            f"{option} applies to samples of lm-evaluation-harness only, got a log of Inspect. Leave it "
            "out."
        )
    if is_harness:
        return read_samples(paths, filter, length_normalized=length_normalized)
    return read_inspect(paths, scorer)


def log_kind(path: str) -> str | None:
    """Return the format of a log; None for other files."""
    if not os.path.isfile(path) or not os.path.getsize(path):
        return None
    with file_errors(path):
        if is_inspect_archive(path):
            return INSPECT
        if not is_json(path, None):
            return None
        if is_inspect_json(path):
            return INSPECT
        first = beginning(path, None)[1].lstrip(b"\xef\xbb\xbf \r\n\t").partition(b"\n")[0]
    return HARNESS if _is_sample(first) else None


def _is_sample(line: bytes) -> bool:
    """Return whether a line, which may be truncated, is a sample of lm-evaluation-harness."""
    try:
        found = json.loads(line)
    except RecursionError:
        return False
    except ValueError:
        return all(key in line for key in _KEYS)
    return isinstance(found, dict) and found.keys() >= KEYS


def is_log(source: Any) -> bool:
    """Return whether the first of some files is a log of a known format."""
    if not isinstance(source, str | os.PathLike | list | tuple) or not source:
        return False
    names = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not all(isinstance(one, str | os.PathLike) for one in names) or os.fspath(names[0]) == "-":
        return False
    try:
        paths = _log_paths(names)
    except DataError:
        return False  # the error is reported when the files are read as a table
    return log_kind(paths[0]) is not None


def _log_paths(source: Files) -> list[str]:
    """Return the files; if there are .eval logs, only these."""
    names = [source] if isinstance(source, str | os.PathLike) else source
    paths = [path for path, _ in find_files([local_name(one) for one in names])[0]]
    return [path for path in paths if path.endswith(".eval")] or paths


def usual_columns(
    names: Sequence[str], label: str | None, score: str | Sequence[str] | None
) -> tuple[str, str | Sequence[str]]:
    """Return the columns of labels and scores, found by their usual names if not given."""
    label = label or find_name(names, CORRECT)
    score = score or find_name(names, CONFIDENCE)
    if label is None or score is None:
        option, usual = ("label", CORRECT) if label is None else ("score", CONFIDENCE)
        raise OptionError(
            printable(
                f"{option} must be given if no column has a usual name ("
                f"{', '.join(map(repr, usual[:3]))}, ...), got columns "
                f"{', '.join(map(repr, names)):.80}. Pass {option}=."
            )
        )
    return label, score
