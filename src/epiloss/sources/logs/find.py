"""Which logs files are, told from their content; and the usual columns of plain files of answers."""

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
    """Read logs of language-model evaluations, to look at them or to pass to ``audit_table``.

    Samples of lm-evaluation-harness (``lm_eval --log_samples``) have the log-likelihoods of the choices
    of each question, whose softmax are the scores. Logs of Inspect (.eval, .json) have scores of a
    scorer, and the confidence in its metadata. What a file is is told from its content.

    Parameters
    ----------
    source : path, paths, folder or pattern
        The logs, all of one kind.
    filter : str, optional
        The filter of lm-evaluation-harness; by default the first in each file.
    scorer : str, optional
        The scorer of Inspect; by default the first one.
    length_normalized : bool
        Divide log-likelihoods by the number of characters of the choice, as the metric ``acc_norm``
        of lm-evaluation-harness does.

    Returns
    -------
    Log
        The rows as a table, and which columns are label and score.

    See Also
    --------
    audit_table : audits it; it also reads logs by itself, with the defaults.

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
                f"{unknown} is no log that is known: neither samples of lm-evaluation-harness nor a log "
                "of Inspect. Name its columns with label= and score= to audit it as a table."
            )
        )
    if len(set(kinds.values())) > 1:
        raise DataError(f"logs must be of one kind, got {' and '.join(map(str, set(kinds.values())))}.")
    is_harness = kinds[paths[0]] == HARNESS
    if is_harness and scorer is not None:
        raise OptionError("scorer is for logs of Inspect, got samples of lm-evaluation-harness.")
    if not is_harness and (filter is not None or length_normalized):
        option = "length_normalized" if filter is None else "filter"
        raise OptionError(f"{option} is for samples of lm-evaluation-harness, got a log of Inspect.")
    if is_harness:
        return read_samples(paths, filter, length_normalized=length_normalized)
    return read_inspect(paths, scorer)


def log_kind(path: str) -> str | None:
    """Return which log a file is, None if it is none."""
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
    """Tell whether a line, of which the end may be missing, is one of the harness."""
    try:
        found = json.loads(line)
    except RecursionError:
        return False
    except ValueError:
        return all(key in line for key in _KEYS)
    return isinstance(found, dict) and found.keys() >= KEYS


def is_log(source: Any) -> bool:
    """Tell whether the first of some files is a log that is known."""
    if not isinstance(source, str | os.PathLike | list | tuple) or not source:
        return False
    names = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not all(isinstance(one, str | os.PathLike) for one in names) or os.fspath(names[0]) == "-":
        return False
    try:
        paths = _log_paths(names)
    except DataError:
        return False  # which is told where the files are read as a table
    return log_kind(paths[0]) is not None


def _log_paths(source: Files) -> list[str]:
    """Return the files; of a folder with .eval logs, only these."""
    names = [source] if isinstance(source, str | os.PathLike) else source
    paths = [path for path, _ in find_files([local_name(one) for one in names])[0]]
    return [path for path in paths if path.endswith(".eval")] or paths


def usual_columns(
    names: Sequence[str], label: str | None, score: str | Sequence[str] | None
) -> tuple[str, str | Sequence[str]]:
    """Return the columns of labels and scores, those that are not named by their usual names."""
    label = label or find_name(names, CORRECT)
    score = score or find_name(names, CONFIDENCE)
    if label is None or score is None:
        option, usual = ("label", CORRECT) if label is None else ("score", CONFIDENCE)
        raise OptionError(
            printable(
                f"{option} must name a column: none is called {', '.join(map(repr, usual[:3]))} or the "
                f"like, got {', '.join(map(repr, names)):.80}."
            )
        )
    return label, score
