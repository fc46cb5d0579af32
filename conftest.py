"""Examples that are left out, and no search for garbage while tests and examples are collected."""

import gc
from collections.abc import Generator
from importlib.util import find_spec

import pytest

# modules whose packages are not installed have no examples to run
_NEEDS = {"torchmetrics.py": "torchmetrics", "mlflow_evaluator.py": "mlflow", "skore.py": "skore"}
collect_ignore = [
    f"src/epiloss/integrations/{module}" for module, package in _NEEDS.items() if not find_spec(package)
]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Search for no garbage: nearly all objects stay, and the search takes a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
