"""Comparison of several models on the same rows, loss by loss."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from epiloss._saving import SCHEMA, SavedAsJson, SavedAsPage, for_json
from epiloss._threads import limited_threads
from epiloss.analysis.wording import rule_title
from epiloss.auditing.differences import LOSSES, loss_title, paired_difference
from epiloss.auditing.result import Audit
from epiloss.auditing.run import audit_rows
from epiloss.errors import DataError, OptionError, printable
from epiloss.estimate import Estimate, percent
from epiloss.estimation.options import Options, read_options
from epiloss.number_format import loss_spec
from epiloss.table import Table, aligned

if TYPE_CHECKING:
    from epiloss.presentation.plot.comparison import ComparisonDisplay

_LEDGER = (*LOSSES, "remainder")
_RECALIBRATED = "_recalibrated"
_WIDE = 100  # characters per line


@dataclass(frozen=True)
class Comparison(SavedAsJson, SavedAsPage):
    """Audits of several models, ordered by score, and their differences from a baseline.

    Attributes
    ----------
    baseline : str
        The model that the others are compared with.
    table : Table
        The losses of each model, with intervals.
    differences : Table
        A row for each other model and loss: the model's loss minus the baseline's. A positive
        difference means that the model is worse.
    audits : mapping of str to Audit
        The audit of each model.

    See Also
    --------
    compare : returns it.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid().sample(1_000)
    >>> result = epiloss.compare(sample.y, {"scores": sample.scores, "truth": sample.q})
    >>> list(result.audits) == result.table["name"].tolist() == list(result.to_dict()["audits"])
    True
    >>> result.to_html()[:15]
    '<!DOCTYPE html>'
    """

    baseline: str
    table: Table
    differences: Table
    audits: Mapping[str, Audit] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values; numbers that are not finite become None.

        Returns
        -------
        dict
            By the names of the attributes.
        """
        plain: dict[str, Any] = for_json(
            {
                "schema": SCHEMA,
                "baseline": self.baseline,
                "table": self.table.to_dict(),
                "differences": self.differences.to_dict(),
                "audits": {name: one.to_dict() for name, one in self.audits.items()},
            }
        )
        return plain

    def _page(self, **about: Any) -> str:
        from epiloss.presentation.report import comparison_page

        return comparison_page(self, **about)

    def plot(self, ax: Any = None, **layers: Any) -> ComparisonDisplay:
        """Draw the losses of all models, before and after recalibration where there is one.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **layers
            Options of :meth:`epiloss.presentation.plot.ComparisonDisplay.plot`.

        Returns
        -------
        ComparisonDisplay
            The picture, with everything that is drawn.

        Examples
        --------
        With matplotlib::

            epiloss.compare(y_true, {"old": p_old, "new": p_new}, X).plot()
        """
        from epiloss.presentation.plot.comparison import ComparisonDisplay

        return ComparisonDisplay(self).plot(ax, **layers)

    def __str__(self) -> str:
        return "\n".join(_text(self))


def compare(
    y_true: Any,
    models: Mapping[str, Any],
    X: Any = None,
    *,
    baseline: str | None = None,
    subgroups: Any = None,
    sample_weight: Any = None,
    clusters: Any = None,
    display: Any = None,
    **options: Any,
) -> Comparison:
    """Audit several models on the same rows, and test which losses differ.

    All models share the options and the seed. The standard error of a difference is that of the
    rows' differences: what is hard for both models cancels.

    Parameters
    ----------
    y_true : array-like
        Labels, as in :func:`epiloss.audit`.
    models : mapping of names to array-likes of shape (n,) or (n, K)
        The probabilities of each model.
    X : array-like, optional
        Features, as in :func:`epiloss.audit`.
    baseline : str, optional
        The model that the others are compared with; by default the one with the best score. The
        p-values are not adjusted for their number, nor for choosing the best of many models: name
        the baseline where you can.
    subgroups, sample_weight, clusters, display, **options
        As in :func:`epiloss.audit`. With ``recalibrate`` the recalibrated scores are compared too, in
        columns that end in ``_recalibrated``.

    Returns
    -------
    Comparison
        The audits, the best score first, and the differences with intervals and p-values.

    See Also
    --------
    audit : one model.
    drift : one model on two data sets.

    References
    ----------
    Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
    neural networks", ICLR 2023.

    Diebold and Mariano, "Comparing predictive accuracy", Journal of Business and Economic Statistics
    13, 1995: standard errors of paired differences of losses.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(4_000)
    >>> models = {"logistic": sample.scores, "truth": sample.q}
    >>> result = epiloss.compare(sample.y, models, sample.X)
    >>> result.table["name"].tolist(), result.differences["loss"][2]
    (['truth', 'logistic'], 'grouping_loss')
    >>> bool(result.differences["difference"][2] > 0.02), bool(result.differences["pvalue"][2] < 0.001)
    (True, True)
    """
    # options are read once, so that all models are audited on the same splits
    own = ("baseline", "subgroups", "sample_weight", "clusters", "display")
    chosen = read_options(options, "compare", own)
    _check_models(models, baseline, y_true)
    rows = {"sample_weight": sample_weight, "clusters": clusters}
    rows |= {"subgroups": subgroups, "display": display}
    audits = {name: _audited(name, y_true, y_prob, X, chosen, rows) for name, y_prob in models.items()}
    return compared(audits, baseline)


def compared(audits: Mapping[str, Audit], baseline: str | None = None) -> Comparison:
    """Compare audits of the same rows; their features may differ.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid().sample(1_000)
    >>> result = epiloss.audit(sample.y, sample.scores, sample.X)
    >>> compared({"one": result, "other": result}).differences["difference"].tolist()
    [0.0, 0.0, 0.0]
    """
    ordered = dict(sorted(audits.items(), key=lambda item: item[1].score.value))
    best = next(iter(ordered)) if baseline is None else baseline
    return Comparison(best, _table(ordered), _differences(ordered, best), ordered)


@limited_threads()
def _audited(
    name: str, y_true: Any, y_prob: Any, X: Any, options: Options, rows: Mapping[str, Any]
) -> Audit:
    try:
        return audit_rows(y_true, y_prob, X, options, **rows)
    except DataError as error:
        raise DataError(f"model {name!r}: {error}") from None


def _check_models(models: Mapping[str, Any], baseline: str | None, y_true: Any) -> None:
    if not isinstance(models, Mapping) or not models:
        got = "an empty one" if isinstance(models, Mapping) else f"a {type(models).__name__}"
        raise OptionError(
            f"models must be a mapping of names to probabilities, got {got}. "
            "Pass, for instance, {'logistic': y_prob}."
        )
    unnamed = [name for name in models if not isinstance(name, str)]
    if unnamed:
        raise OptionError(f"the names of models must be text, got {unnamed[0]!r}. Use str(name).")
    if baseline is not None and baseline not in models:
        raise OptionError(
            f"baseline must be one of the models {', '.join(map(repr, models))}, got {baseline!r}. "
            "Leave it out for the one with the best score."
        )
    for name, y_prob in models.items():
        if hasattr(y_prob, "__len__") and hasattr(y_true, "__len__") and len(y_prob) != len(y_true):
            raise DataError(
                f"all models must have one row for each of the {len(y_true)} labels, got {len(y_prob)} "
                f"rows from {name!r}. Predict the same rows with every model."
            )


def _table(audits: Mapping[str, Audit]) -> Table:
    columns: dict[str, Any] = {"name": np.array(list(audits), object)}
    for suffix, parts in _versions(audits):
        for loss in _LEDGER:
            estimates = [getattr(part, loss) for part in parts]
            for end, attribute in (("", "value"), ("_low", "low"), ("_high", "high")):
                columns[f"{loss}{end}{suffix}"] = _numbers(estimates, attribute)
    return Table(columns)


def _differences(audits: Mapping[str, Audit], baseline: str) -> Table:
    names = list(audits)
    place = names.index(baseline)
    rows = [
        (names[i], loss + suffix, paired_difference(parts[i], parts[place], loss))
        for i in range(len(names))
        if i != place
        for suffix, parts in _versions(audits)
        for loss in LOSSES
    ]
    estimates = [estimate for *_, estimate in rows]
    return Table(
        {
            "name": np.array([name for name, *_ in rows], object),
            "loss": np.array([loss for _, loss, _ in rows], object),
            "difference": _numbers(estimates, "value"),
            **{part: _numbers(estimates, part) for part in ("stderr", "low", "high", "pvalue")},
        }
    )


def _versions(audits: Mapping[str, Audit]) -> list[tuple[str, list[Audit]]]:
    """Return the audits of the given scores and, if there are any, of the recalibrated scores."""
    recalibrated = [one.recalibrated for one in audits.values() if one.recalibrated is not None]
    return [("", list(audits.values())), *([(_RECALIBRATED, recalibrated)] if recalibrated else [])]


def _numbers(estimates: Sequence[Estimate], attribute: str) -> Any:
    values = [getattr(estimate, attribute) for estimate in estimates]
    return np.array([np.nan if value is None else value for value in values], float)


def _text(comparison: Comparison) -> list[str]:
    first = next(iter(comparison.audits.values()))
    level = percent(first.confidence_level)
    rule = rule_title(first.rule)
    lines = [f"{first.task} task, {rule}, {first.n_samples:,} rows, {level} intervals"]
    spec = loss_spec(*(one.score.value for one in comparison.audits.values()))
    versions = _versions(comparison.audits)
    for suffix, parts in versions:
        cells = [
            [name, *(f"{getattr(part, loss):{spec}}" for loss in _LEDGER)]
            for name, part in zip(comparison.audits, parts, strict=True)
        ]
        titles = [loss_title(loss, first) for loss in _LEDGER]
        heading = "recalibrated" if suffix else "as given" if len(versions) > 1 else "model"
        lines += ["", *aligned([[heading, *titles], *cells])]
    table = comparison.differences
    if not len(table):
        return lines
    rows = [[f"minus {comparison.baseline}", "loss", "difference", "p-value"]]
    for name, loss, *numbers, pvalue in zip(*(table[column] for column in table), strict=True):
        known = np.isfinite(numbers[0])  # the difference of infinite scores is not a number
        shown = [f"{Estimate(*numbers):+{spec}}", f"{pvalue:.2g}"] if known else ["", ""]
        rows.append([name, loss.replace("_", " "), *shown])
    baseline = printable(comparison.baseline)
    note = f"A positive difference means that the model is worse than {baseline}."
    words = textwrap.fill(in_words(comparison), _WIDE, break_on_hyphens=False)
    return [*lines, "", *aligned(rows), note, "", words]


def in_words(comparison: Comparison) -> str:
    """Say which models have a significantly better or worse score than the baseline.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid(perturbation="step").sample(1_000)
    >>> print(in_words(epiloss.compare(sample.y, {"scores": sample.scores, "truth": sample.q})))
    By the Brier score, scores is worse than truth by 0.0390 (95% interval 0.0319 to 0.0460).
    """
    table = comparison.differences
    scores = table.take(np.flatnonzero(table["loss"] == "score"))
    spec = loss_spec(*(one.score.value for one in comparison.audits.values()), least=4)
    first, baseline = next(iter(comparison.audits.values())), printable(comparison.baseline)
    level, clear, unclear = first.confidence_level, [], []
    for row in scores.rows():
        if not np.isfinite(row["difference"]):
            continue
        if not row["pvalue"] <= 1 - level:
            unclear.append(printable(str(row["name"])))
            continue
        ends = sorted((abs(row["low"]), abs(row["high"])))
        side, by = "worse" if row["difference"] > 0 else "better", abs(row["difference"])
        clear.append(
            f"{printable(str(row['name']))} is {side} than {baseline} by {by:{spec}} "
            f"({percent(level)} interval {ends[0]:{spec}} to {ends[1]:{spec}})"
        )
    if unclear:
        be = "is" if len(unclear) == 1 else "are"
        clear.append(f"{_listed(unclear)} {be} not significantly different from {baseline}")
    if not clear:
        return ""
    return f"By the {rule_title(first.rule)}, {'; '.join(clear)}."


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
