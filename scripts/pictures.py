"""Draw the figures of the documentation.

    python scripts/pictures.py --output docs/images

All of them come from the demo data of the package and from samples with fixed seeds: the same versions
of the packages give the same files.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

import epiloss
from epiloss._saving import replacing
from epiloss.datasets import load_census_income
from epiloss.presentation.plot import GapsDisplay, LedgerDisplay
from epiloss.simulate import Sigmoid

RESOLUTION = 150  # dots per inch


def grouping_diagram(census: epiloss.Audit) -> Any:
    """Draw each level set, split by cross-fitted predictions."""
    return census.plot().figure_


def segments(census: epiloss.Audit) -> Any:
    """Draw the gaps of the segments."""
    return GapsDisplay.from_audit(census).plot().figure_


def grouping_diagram_simulated(_: epiloss.Audit) -> Any:
    """Draw a calibrated classifier that ignores an informative feature."""
    sample = Sigmoid(perturbation="step").sample(8_000)
    return epiloss.audit(sample.y, sample.scores, sample.X).plot().figure_


def ledger(census: epiloss.Audit) -> Any:
    """Draw the decomposition of the score."""
    return LedgerDisplay(census).plot().figure_


PICTURES: dict[str, Callable[[epiloss.Audit], Any]] = {
    "grouping-diagram": grouping_diagram,
    "segments": segments,
    "grouping-diagram-simulated": grouping_diagram_simulated,
    "ledger": ledger,
}


def save(figure: Any, path: Path) -> None:
    """Write a figure atomically."""
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=RESOLUTION)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the figures and print their paths."""
    parser = argparse.ArgumentParser(description="Draw the figures of the documentation.")
    parser.add_argument("--output", type=Path, default=Path("docs/images"), metavar="DIR")
    parser.add_argument(
        "--only", nargs="+", choices=PICTURES, metavar="NAME", help="names of the figures to draw"
    )
    options = parser.parse_args(arguments)
    matplotlib.use("Agg")
    from matplotlib import pyplot

    options.output.mkdir(parents=True, exist_ok=True)
    data = load_census_income()
    census = epiloss.audit(data.y, data.scores, data.X, recalibrate="isotonic")
    for name in options.only or PICTURES:
        path = options.output / f"{name}.png"
        save(PICTURES[name](census), path)
        pyplot.close("all")
        print(path)


if __name__ == "__main__":
    main()
