"""Sentences of the package in the words of the command line: options as switches."""

from __future__ import annotations

import re

# what arguments of the audit are called here
_OPTIONS = {
    "y_true": "--label",
    "y_prob": "--score",
    "features": "--feature",
    "sample_weight": "--weight",
    "pos_label": "--pos-label",
    "row_id": "--row-id",
    "n_jobs": "--jobs",
    "n_bins": "--n-bins",
    "random_state": "--seed",
    "region_ratio": "--region-ratio",
    "drop_missing": "--drop-missing",
    "confidence_level": "--confidence-level",
    "classes": "--class",
    "exclude": "--exclude",
    "length_normalized": "--length-normalized",
}
# as options alone, not as words of a sentence
_SAME = (
    "task", "label", "score", "subgroups", "clusters", "engine", "memory", "display", "logits", "method",
    "rule", "checkpoint", "recalibrate", "strategy", "tolerance", "sql",
)  # fmt: skip
SWITCHES = {**_OPTIONS, **{name: f"--{name}" for name in _SAME}}
_SPOKEN = re.compile(
    r"(?<!\w)'[^']*'"  # names of the data, which stay
    rf"|\b({'|'.join(SWITCHES)})=(?:True\b|\[\.\.\.\])?"
    rf"|\b({'|'.join(name for name in _OPTIONS if '_' in name)})\b"
)


def spoken(text: str) -> str:
    """Return a sentence with the options of Python called as they are here.

    Examples
    --------
    >>> spoken("Pass drop_missing=True to leave such rows out; 'y_true=' is a name.")
    "Pass --drop-missing to leave such rows out; 'y_true=' is a name."
    >>> spoken("y_true must hold two classes. Pass task='joint' or classes=[...].")
    "--label must hold two classes. Pass --task 'joint' or --class."
    """

    def option(found: re.Match[str]) -> str:
        switch, name = found.groups()
        if switch is None and name is None:
            return found.group()
        said = SWITCHES[switch or name]
        next_sign = text[found.end() : found.end() + 1]
        value_follows = found.group().endswith("=") and next_sign.strip(" ,.;)")
        return f"{said} " if value_follows else said

    return _SPOKEN.sub(option, text)
