"""Logging audits to MLflow: losses as metrics, options as parameters, the report as an artifact."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

from epiloss.auditing.result import Audit
from epiloss.errors import MissingExtraError, OptionError
from epiloss.estimate import Estimate

_ESTIMATES = (
    "score",
    "calibration_loss",
    "grouping_loss",
    "remainder",
    "partition_bound",
    "crossfit_bound",
    "twin_estimate",
    "irreducible_loss",
)
_LONGEST = 500  # characters of a parameter or tag that every tracking store accepts


def log_audit(
    result: Audit,
    prefix: str = "epiloss",
    *,
    run_id: str | None = None,
    client: Any = None,
    step: int = 0,
) -> str:
    """Log an audit to an MLflow run, by default the active one, and return the id of the run."""
    try:
        import mlflow
        from mlflow.entities import Metric, Param, RunTag
    except ImportError:
        raise MissingExtraError(
            "log_to_mlflow needs mlflow, which is not installed. Run: pip install 'epiloss[mlflow]'"
        ) from None
    if run_id is None:
        active = mlflow.active_run()
        if active is None:
            raise OptionError(
                "log_to_mlflow needs a run, but none is active. Call it inside `with "
                "mlflow.start_run():`, or pass run_id=."
            )
        run_id = str(active.info.run_id)
    client = mlflow.MlflowClient() if client is None else client
    now = int(1000 * time.time())
    client.log_batch(
        run_id,
        metrics=[Metric(f"{prefix}/{name}", value, now, step) for name, value in metrics_of(result)],
        params=[
            Param(f"{prefix}/{name}", str(value)[:_LONGEST]) for name, value in result.options.items()
        ],
        tags=[RunTag(f"{prefix}/verdict", str(result.verdict)[:_LONGEST])],
    )
    client.log_text(run_id, result.to_html(), f"{prefix}/report.html")
    client.log_dict(run_id, result.to_dict(), f"{prefix}/audit.json")
    return run_id


def metrics_of(result: Audit) -> Iterator[tuple[str, float]]:
    """Yield all numbers of an audit by name: its losses, those after recalibration, and its metrics.

    Examples
    --------
    >>> import epiloss
    >>> sample = epiloss.simulate.Sigmoid().sample(1_000)
    >>> names = dict(metrics_of(epiloss.audit(sample.y, sample.scores)))
    >>> [name in names for name in ("grouping_loss", "calibration_loss_low", "metrics/auc")]
    [True, True, True]
    """
    for name in _ESTIMATES:
        estimate = getattr(result, name)
        if isinstance(estimate, Estimate):
            yield from _finite(name, estimate)
    yield "n_samples", float(result.n_samples)
    if result.recalibrated is not None:
        for name, value in metrics_of(result.recalibrated):
            yield f"recalibrated/{name}", value
    for name, metric in result.metrics.items():
        yield from _finite(f"metrics/{name}", metric.estimate)
        if metric.floor is not None:
            yield f"metrics/{name}_floor", metric.floor.value


def _finite(name: str, estimate: Estimate) -> Iterator[tuple[str, float]]:
    for part, value in estimate.to_dict().items():
        if value is not None and math.isfinite(value):
            yield (name if part == "value" else f"{name}_{part}"), float(value)
