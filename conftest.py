"""Modules whose packages are not installed have no examples to run."""

from importlib.util import find_spec

_NEEDS = {"torchmetrics.py": "torchmetrics", "mlflow_evaluator.py": "mlflow", "skore.py": "skore"}
collect_ignore = [
    f"src/epiloss/integrations/{module}" for module, package in _NEEDS.items() if not find_spec(package)
]
