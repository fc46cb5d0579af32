"""Groups by the word and the shapes of fairlearn: ``sensitive_features``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from epiloss.errors import DataError, OptionError
from epiloss.input.arrays import group_names


def groups_or_sensitive(groups: Any, sensitive_features: Any) -> Any:
    """Return whichever is given as groups; several columns become one of combinations.

    Examples
    --------
    >>> groups_or_sensitive(None, {"sex": ["F", "M"], "old": [True, False]}).tolist()
    ['sex=F, old=True', 'sex=M, old=False']
    """
    if sensitive_features is None:
        return groups
    if groups is not None:
        raise OptionError(
            "sensitive_features is another word for groups: give one of them, got both. "
            "For combinations pass a data frame of several columns."
        )
    columns = _columns(sensitive_features)
    if columns is None:
        return sensitive_features
    if not columns:
        raise DataError("sensitive_features must have at least one column, got none.")
    parts = [
        [f"{name}={value}" for value in group_names(column, f"sensitive_features[{name!r}]").tolist()]
        for name, column in columns.items()
    ]
    if len({len(part) for part in parts}) > 1:
        lengths = ", ".join(str(len(part)) for part in parts)
        raise DataError(f"sensitive_features must have columns of one length, got {lengths}.")
    return np.array([", ".join(row) for row in zip(*parts, strict=True)], object)


def _columns(features: Any) -> dict[str, Any] | None:
    """Return the columns of a table by name; None where there is a single one without a name."""
    if isinstance(features, Mapping):
        return {str(name): column for name, column in features.items()}
    names = getattr(features, "column_names", None)  # of pyarrow, whose columns are arrays
    names = getattr(features, "columns", None) if names is None else names
    if names is not None:
        return {str(name): features[name] for name in names}
    if getattr(features, "ndim", 1) == 2:
        return {f"sensitive_feature_{k}": features[:, k] for k in range(features.shape[1])}
    return None
