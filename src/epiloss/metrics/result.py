"""Metrics as results: values with intervals, tables and printed text."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epiloss._saving import SavedAsJson, for_json
from epiloss.errors import OptionError
from epiloss.estimate import Estimate, percent
from epiloss.table import Table, aligned

_DIGITS = "z.4f"


class LeftOutError(Exception):
    """A metric is not defined for these rows; the message gives the reason."""


@dataclass(frozen=True)
class NoiseFloor:
    """The calibration error that a perfectly calibrated model with the same scores has by chance.

    ``value`` is the mean, and ``high`` the 95% quantile.
    """

    value: float
    high: float


@dataclass(frozen=True)
class Metric:
    """A metric with its interval, the method of the interval, and its noise floor if it has one.

    For a metric with a noise floor, ``value`` is the usual estimate, which noise biases upwards, and
    the interval is that of the error without noise, which can lie below ``value``. ``subject`` names
    the probability that the metric evaluates.
    """

    name: str
    title: str
    estimate: Estimate
    interval: str = ""
    floor: NoiseFloor | None = None
    subject: str = ""

    @property
    def value(self) -> float:
        """The value of the metric."""
        return self.estimate.value

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        if self.floor is None:
            return f"{self.title}: {self.estimate:{_DIGITS}}"
        of = f", of the {self.subject}" if self.subject else ""
        return f"{self.title}{of}: {self.estimate:{_DIGITS}}, by chance {self.floor.value:{_DIGITS}}"

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes as plain Python values."""
        one = self.estimate
        return {
            "name": self.name,
            "title": self.title,
            "subject": self.subject,
            "value": one.value,
            "stderr": one.stderr,
            "low": one.low,
            "high": one.high,
            "interval": self.interval or None,
            "floor": None if self.floor is None else self.floor.value,
            "floor_high": None if self.floor is None else self.floor.high,
        }


@dataclass(frozen=True, repr=False)
class Metrics(Mapping[str, Metric], SavedAsJson):
    """The metrics of an audit by name.

    ``subject`` names the probability that they evaluate. ``left_out`` gives the reason for each metric
    that is not defined here, and ``notes`` hold further remarks.

    Examples
    --------
    >>> accuracy = Metric("accuracy", "Accuracy", Estimate(0.8, low=0.75, high=0.85), "Wilson")
    >>> metrics = Metrics({"accuracy": accuracy}, subject="probability of 'yes'", n_rows=300)
    >>> metrics["accuracy"].value
    0.8
    >>> metrics
    Metrics of the probability of 'yes', 300 rows
    metric    value   [95% interval]    by chance
    Accuracy  0.8000  [0.7500, 0.8500]
    """

    metrics: Mapping[str, Metric]
    subject: str = ""
    n_rows: int = 0
    confidence_level: float = 0.95
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Metric:
        return self.metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    def value(self, name: str) -> float:
        """Return the value of a metric; raise an OptionError with the reason if there is none."""
        if name in self.metrics:
            return self.metrics[name].value
        if name in self.left_out:
            raise OptionError(f"{name!r} was left out: {self.left_out[name]}")
        raise OptionError(f"unknown metric {name!r}. Use one of {', '.join(self.metrics)}.")

    @property
    def table(self) -> Table:
        """The metrics as a table with one row per metric; missing values are NaN."""
        rows = [one.to_dict() for one in self.values()]
        texts = {name: np.array([row[name] for row in rows], object) for name in ("name", "title")}
        numbers = ("value", "stderr", "low", "high", "floor", "floor_high")
        return Table(
            {**texts, **{name: np.array([row[name] for row in rows], float) for name in numbers}}
        )

    def to_pandas(self) -> Any:
        """Return the metrics as a pandas data frame."""
        return self.table.to_pandas()

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes as plain Python values; infinite and NaN values become None."""
        plain: dict[str, Any] = for_json(
            {
                "subject": self.subject,
                "n_rows": self.n_rows,
                "confidence_level": self.confidence_level,
                "metrics": {name: one.to_dict() for name, one in self.items()},
                "left_out": dict(self.left_out),
                "notes": list(self.notes),
            }
        )
        return plain

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = [f"Metrics of the {self.subject}, {self.n_rows:,} rows"] if self.metrics else []
        if self.metrics:
            lines += aligned(self._cells())
        return "\n".join([*lines, *self._remarks()])

    def _repr_html_(self) -> str:
        """Return the metrics for a notebook."""
        remarks = "".join(f"<p>{html.escape(one)}</p>" for one in self._remarks())
        if not self.metrics:
            return remarks
        header, *rows = ([html.escape(cell) for cell in row] for row in self._cells())
        head = "".join(f"<th>{cell}</th>" for cell in header)
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
        caption = html.escape(f"Metrics of the {self.subject}, {self.n_rows:,} rows")
        return (
            f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>{remarks}"
        )

    def _cells(self) -> list[list[str]]:
        header = ["metric", "value", f"[{percent(self.confidence_level)} interval]", "by chance"]
        return [header, *(_cells_of(one) for one in self.values())]

    def _remarks(self) -> list[str]:
        if not self.metrics:
            return list(self.notes)  # they give the reason
        reasons: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            reasons.setdefault(reason, []).append(name)
        left = [f"Left out: {', '.join(names)} ({reason})." for reason, names in reasons.items()]
        return [*left, *self.notes]


def _cells_of(one: Metric) -> list[str]:
    low, high = one.estimate.low, one.estimate.high
    interval = "" if low is None or high is None else f"[{low:{_DIGITS}}, {high:{_DIGITS}}]"
    floor = "" if one.floor is None else f"{one.floor.value:{_DIGITS}}"
    return [one.title, format(one.value, _DIGITS), interval, floor]
