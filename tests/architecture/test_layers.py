"""The layers of the package: each imports only from those below it, also inside functions."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "epiloss"
# from the bottom to the top; what stands in one line is one layer
LAYERS = (
    ("_typing", "errors", "_random", "_threads", "_saving", "_models", "_progress"),
    ("table", "estimate", "number_format"),
    ("_kernels",),
    ("scoring",),
    ("simulate",),
    ("input",),
    ("sources",),
    ("calibration",),
    ("partition",),
    ("estimation",),
    ("metrics",),
    ("segments",),
    ("auditing",),
    ("streaming",),
    ("repair",),
    ("analysis",),
    ("presentation",),
    ("integrations", "testing", "plot"),
    ("datasets",),
    ("cli",),
    ("__init__", "__main__"),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# a result shows, repairs and logs itself: `result.plot()`, `.to_html()`, `.repair()`, `.log_to_mlflow()`
EXCEPTIONS = {
    ("epiloss.auditing.result", "epiloss.presentation"),
    ("epiloss.auditing.result", "epiloss.repair"),
    ("epiloss.auditing.result", "epiloss.integrations"),
    ("epiloss.analysis.comparison", "epiloss.presentation"),
    ("epiloss.analysis.drift_result", "epiloss.presentation"),
    ("epiloss.analysis.regret", "epiloss.presentation"),
    ("epiloss.analysis.tracking_result", "epiloss.presentation"),
    ("epiloss.repair.evaluate", "epiloss.presentation"),
    ("epiloss.presentation.report.wording", "epiloss"),  # the version
}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)


def imported(path: Path, *, types: bool = True) -> set[str]:
    """Return the modules of the package that a module imports, at its head or inside functions.

    Without ``types`` those that are imported for type checkers alone do not count.
    """
    found = set()
    tree = ast.parse(path.read_text("utf-8"))
    if not types:
        tree.body = [node for node in tree.body if not is_for_types(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "epiloss"}
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "epiloss":
            assert node.module is not None
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if is_module(inner) else node.module)
    return found


def is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def is_module(name: str) -> bool:
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def room(module: str) -> str:
    """Return the package or flat module that a module belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def allowed(module: str, other: str) -> bool:
    if RANK[room(other)] <= RANK[room(module)]:
        return True
    if other == "epiloss":
        return (module, other) in EXCEPTIONS
    return any(module == one and f"{other}.".startswith(f"{two}.") for one, two in EXCEPTIONS)


def test_every_module_has_a_layer() -> None:
    assert {room(module) for module in MODULES} <= set(RANK)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_imports_only_from_its_own_layer_and_those_below(module: str) -> None:
    against = [other for other in sorted(imported(MODULES[module])) if not allowed(module, other)]
    assert not against, f"{module} imports against the direction: {', '.join(against)}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    left = {
        module: {
            other
            for other in imported(path, types=False)
            if other in MODULES and other != module and (RANK[room(other)] <= RANK[room(module)])
        }
        for module, path in MODULES.items()
    }
    while True:  # those that import nothing that is left are in no circle
        free = {module for module, others in left.items() if not others & set(left)}
        if not free:
            break
        left = {module: others for module, others in left.items() if module not in free}
    assert not left, f"in or behind a circle: {', '.join(sorted(left))}"


def test_few_modules_lie_flat() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 14
