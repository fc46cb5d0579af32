"""Messages of the package with Python options replaced by the switches of the command line."""

from __future__ import annotations

import re

# Python arguments with another name on the command line
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
    "cost_fp": "--cost-fp",
    "cost_fn": "--cost-fn",
    "reference_when": "--date",
}
# these are also ordinary words, so they are replaced only when followed by = or at the start of a rule
_SAME = (
    "task", "label", "score", "subgroups", "clusters", "engine", "memory", "display", "logits", "method",
    "rule", "checkpoint", "recalibrate", "strategy", "tolerance", "sql", "by", "date",
)  # fmt: skip
SWITCHES = {**_OPTIONS, **{name: f"--{name}" for name in _SAME}, "when": "--date"}
_MENTION = re.compile(
    r"(?<!\w)'[^']*'"  # quoted names come from the data and are left alone
    rf"|\b({'|'.join(SWITCHES)})=(?:True\b|\[\.\.\.\])?"
    rf"|\b({'|'.join(name for name in _OPTIONS if '_' in name)})\b"
    rf"|^({'|'.join(SWITCHES)})(?= must\b)"
)


def with_switches(text: str) -> str:
    """Replace the Python options in a message by command-line switches.

    Examples
    --------
    >>> with_switches("Pass drop_missing=True to leave such rows out; 'y_true=' is a name.")
    "Pass --drop-missing to leave such rows out; 'y_true=' is a name."
    >>> with_switches("y_true must hold two classes. Pass task='joint' or classes=[...].")
    "--label must hold two classes. Pass --task 'joint' or --class."
    >>> with_switches("tolerance must lie in (0, 1), got 2.0.")
    '--tolerance must lie in (0, 1), got 2.0.'
    """

    def option(found: re.Match[str]) -> str:
        named = next(filter(None, found.groups()), None)
        if named is None:
            return found.group()
        replacement = SWITCHES[named]
        next_character = text[found.end() : found.end() + 1]
        value_follows = found.group().endswith("=") and next_character.strip(" ,.;)")
        return f"{replacement} " if value_follows else replacement

    return _MENTION.sub(option, text)
