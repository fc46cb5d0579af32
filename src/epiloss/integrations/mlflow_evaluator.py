"""An MLflow evaluator: ``mlflow.evaluate(..., evaluators="epiloss")`` audits a classifier.

MLflow finds it by the entry point ``mlflow.model_evaluator``, and runs it only if it is named.
"""

from __future__ import annotations

from typing import Any

from epiloss._models import predicted_probabilities
from epiloss.auditing.run import audit
from epiloss.errors import MissingExtraError, OptionError
from epiloss.integrations.mlflow import log_audit, metrics_of

try:
    from mlflow.models.evaluation.base import EvaluationResult, ModelEvaluator
except ImportError:
    raise MissingExtraError(
        "the evaluator needs mlflow, which is not installed. Run: pip install 'epiloss[mlflow]'"
    ) from None


class EpilossEvaluator(ModelEvaluator):  # type: ignore[misc]  # mlflow may not be installed
    """Audit the probabilities of a classifier, and log losses, metrics and the report to the run.

    ``evaluator_config`` may have the options of :func:`epiloss.audit`, and ``prefix``, the prefix of the
    names of metrics.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str, evaluator_config: Any = None, **others: Any) -> bool:
        """Tell whether the model is a classifier."""
        return bool(model_type == "classifier")

    def evaluate(
        self,
        *,
        model_type: str,
        dataset: Any,
        run_id: str,
        evaluator_config: dict[str, Any] | None = None,
        model: Any = None,
        **others: Any,
    ) -> Any:
        """Audit the data set, log the audit, and return its numbers."""
        options = dict(evaluator_config or {})
        prefix = options.pop("prefix", "epiloss")
        X, y = dataset.features_data, dataset.labels_data
        if y is None:
            raise OptionError("the evaluator needs labels, got none. Pass targets= to mlflow.evaluate.")
        if model is None:
            scores = dataset.predictions_data
        else:
            scores, classes = _probabilities(model, X)
            options = {"classes": classes, **options} if classes else options
        result = audit(y, scores, X, **options)
        log_audit(result, prefix, run_id=run_id)
        found = {f"{prefix}/{name}": value for name, value in metrics_of(result)}
        return EvaluationResult(metrics=found, artifacts={}, run_id=run_id)


def _probabilities(model: Any, X: Any) -> tuple[Any, list[Any]]:
    """Return the probabilities of an MLflow model, and their classes if they are known."""
    try:
        raw = model.get_raw_model()
    except (AttributeError, NotImplementedError):
        return model.predict(X), []  # a function, or a model that returns probabilities
    return predicted_probabilities(raw, X)
