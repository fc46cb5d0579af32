"""Draw the layers of the package and which of them import which others, into docs/images/layers.png.

The layers are those of tests/architecture/test_layers.py, which guards them; the arrows are read from
the source.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

ROOT = Path(__file__).parents[1]
GUARD = ROOT / "tests" / "architecture" / "test_layers.py"
PICTURE = ROOT / "docs" / "images" / "layers.png"
WORDS = {
    "errors": "errors, seeds, threads, tables, estimates",
    "_kernels": "inner loops on arrays, in C and NumPy",
    "scoring": "proper scoring rules",
    "simulate": "problems with known answers",
    "input": "the door: raw input becomes checked arrays",
    "sources": "files and tables, read in parts",
    "calibration": "level sets, calibration curves, recalibration",
    "partition": "(features, level set) -> region",
    "estimation": "losses, bounds, intervals and tests",
    "segments": "where it is wrong: groups of rows in words",
    "metrics": "familiar numbers: AUC, ECE, slope",
    "auditing": "audit(): result, tables, verdict, ledger",
    "streaming": "audit_table(): data larger than memory, engines",
    "repair": "correct the probabilities, measure it, apply it",
    "analysis": "compare, drift, track, regret, gate",
    "presentation": "plots and report pages",
    "integrations": "scikit-learn, MLflow, torch, torchmetrics",
    "datasets": "bundled data",
    "cli": "the command line",
}


def guard() -> Any:
    """Return the test module that defines the layers."""
    spec = importlib.util.spec_from_file_location("layers", GUARD)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def room_name(layers: Any, module: str) -> str:
    """Return the box in which a module is drawn; modules of the base layer share one."""
    room: str = layers.room(module)
    return "errors" if layers.RANK[room] <= layers.RANK["table"] else room


def main() -> None:
    """Draw the figure."""
    layers = guard()
    edges: Counter[tuple[str, str]] = Counter()
    for module, path in layers.MODULES.items():
        for other in layers.imported(path):
            pair = (room_name(layers, module), room_name(layers, other))
            if pair[0] != pair[1] and set(pair) <= set(WORDS):
                edges[pair] += 1
    rooms = list(WORDS)
    figure, ax = pyplot.subplots(figsize=(10.5, 9.5))
    for place, room in enumerate(rooms):
        box = FancyBboxPatch(
            (0, place - 0.36), 6.6, 0.72, boxstyle="round,pad=0.02", fc="#eef3f8", ec="#33506b"
        )
        ax.add_patch(box)
        title = "foundations" if room == "errors" else room
        ax.text(0.1, place, title, va="center", weight="bold", fontsize=10)
        ax.text(2.15, place, WORDS[room], va="center", fontsize=8.5)
    for (above, below), n in edges.items():
        top, bottom = rooms.index(above), rooms.index(below)
        against = top < bottom
        bend = 0.28 + 0.02 * abs(top - bottom)
        side = -0.02 if against else 6.62
        arrow = FancyArrowPatch(
            (side, top),
            (side, bottom),
            connectionstyle=f"arc3,rad={-bend}",
            arrowstyle="-|>",
            mutation_scale=8,
            lw=0.4 + 0.12 * min(n, 12),
            color="#c0392b" if against else "#33506b",
            alpha=0.9 if against else 0.45,
            ls="--" if against else "-",
        )
        ax.add_patch(arrow)
    ax.set_xlim(-1.6, 11)
    ax.set_ylim(-0.7, len(rooms) - 0.3)
    ax.axis("off")
    ax.set_title(
        "Each layer imports only from those below it (dashed: the named exceptions)", fontsize=11
    )
    figure.savefig(PICTURE, dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main()
