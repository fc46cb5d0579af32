"""Roles: which column holds labels, scores, features, weights and so on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from epiloss.errors import DataError, OptionError, printable
from epiloss.sources.arrow import (
    IDENTIFIER,
    INDEX,
    arrow,
    is_list,
    is_text,
    mark_of,
)
from epiloss.sources.whole_files import column


@dataclass(frozen=True)
class Roles:
    """The columns of the data by role."""

    label: str
    scores: tuple[str, ...]
    features: tuple[str, ...]
    weight: str | None = None
    subgroups: tuple[str, ...] = ()
    clusters: str | None = None
    row_id: str | None = None
    display: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()  # columns that the data themselves mark as identifiers

    @property
    def census(self) -> list[str]:
        """The columns of the first pass: labels, weights and subgroups."""
        return _named(self.label, self.weight, *self.subgroups)

    @property
    def survey(self) -> list[str]:
        """The columns of the second pass: all that are used."""
        return _named(*self.tally, self.clusters, self.row_id, *self.display)

    @property
    def tally(self) -> list[str]:
        """The columns of the last pass: all that the sums need."""
        return _named(self.label, *self.scores, *self.features, self.weight, *self.subgroups)


def _named(*names: str | None) -> list[str]:
    return list(dict.fromkeys(name for name in names if name is not None))


def choose_roles(
    schema: Any,
    *,
    label: str,
    scores: Sequence[str],
    features: Sequence[str] | None,
    exclude: Sequence[str],
    display: Sequence[str],
    subgroups: Sequence[str],
    **others: str | None,
) -> Roles:
    """Assign columns to roles; by default, all columns without another role are features.

    Columns that the data mark as identifiers or as an index are displayed, and are not features.
    """
    several = {"score": scores, "features": features or (), "subgroups": subgroups}
    single = {option: [name] for option, name in others.items() if name is not None}
    for option, names in (several | single).items():
        if label in names and option != "row_id":
            raise OptionError(
                printable(
                    f"{option} must not name the column of the labels, got {label!r}. Pass another."
                )
            )
    repeated = [name for name in schema.names if schema.names.count(name) > 1]
    if repeated:
        raise DataError(
            printable(
                f"columns must have distinct names, got {repeated[0]!r} twice. Rename one of them."
            )
        )
    known = dict.fromkeys(schema.names)
    options = {"label": [label], **several, "exclude": exclude, "display": display, **single}
    for option, names in options.items():
        for name in names:
            column(known, name, option)
    marked = [one.name for one in schema if mark_of(one) in (IDENTIFIER, INDEX)]
    other = [*subgroups, *filter(None, others.values())]
    named = {label, *scores, *exclude, *(features or ()), *other}
    identifiers = [name for name in marked if name not in named]
    used = {label, *scores, *exclude, *display, *identifiers, *other}
    if features is None:
        features = [name for name in schema.names if name not in used]
    return Roles(
        label=label,
        scores=tuple(scores),
        features=tuple(features),
        weight=others.get("sample_weight"),
        subgroups=tuple(dict.fromkeys(subgroups)),
        clusters=others.get("clusters"),
        row_id=others.get("row_id"),
        display=tuple(display) or tuple(identifiers),
        identifiers=tuple(identifiers),
    )


def check_types(schema: Any, roles: Roles) -> None:
    """Raise an error for labels, scores and weights of unsupported types, before rows are read."""
    types = arrow().types

    def is_number(kind: Any) -> bool:
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))

    def plain(name: str) -> Any:
        kind = schema.field(name).type
        return kind.value_type if types.is_dictionary(kind) else kind

    kind = plain(roles.label)
    if not (is_number(kind) or is_text(kind) or types.is_boolean(kind) or is_list(kind)):
        raise DataError(
            printable(
                f"labels must be numbers, booleans or strings, got {kind} in column {roles.label!r}. "
                "Convert them first."
            )
        )
    for name in (*roles.scores, *_named(roles.weight)):
        kind = plain(name)
        if is_text(kind):
            continue  # the error is raised when rows are read, and shows the first value
        if not (is_number(kind) or types.is_boolean(kind) or (is_list(kind) and name in roles.scores)):
            what = "weights" if name == roles.weight else "scores"
            raise DataError(
                printable(
                    f"{what} must be numbers, got {kind} in column {name!r}. Convert them first, or "
                    "pass another column."
                )
            )
