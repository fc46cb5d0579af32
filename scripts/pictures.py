"""Draw the figures of the documentation.

    python scripts/pictures.py --output docs/images

All of them come from the demo data of the package and from samples with fixed seeds: the same versions
of the packages give the same files.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib
import numpy as np
from scipy.special import expit, logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

import epiloss
from epiloss._saving import replacing
from epiloss.datasets import NUMERIC, DemoData, load_census_income
from epiloss.presentation.plot import (
    CurveDisplay,
    GapsDisplay,
    HeterogeneityDisplay,
    LedgerDisplay,
    SimulationDisplay,
)
from epiloss.simulate import Sigmoid

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
RESOLUTION = 150  # dots per inch
TRIALS, TRIAL_ROWS = 20, 10_000  # samples of the simulation, and their rows

# the first words of a level of education, and the band that it belongs to
BANDS = {
    "High school": "high school",
    "Some college": "some college",
    "Associates": "some college",
    "Bachelors": "bachelor",
    "Masters": "master or more",
    "Prof": "master or more",
    "Doctorate": "master or more",
}


@dataclass(frozen=True)
class Census:
    """The demo data, and results that several figures use."""

    data: DemoData

    @cached_property
    def result(self) -> epiloss.Audit:
        """The audit of the bundled scores."""
        data = self.data
        return epiloss.audit(data.y, data.scores, data.X, recalibrate="isotonic")

    @cached_property
    def models(self) -> dict[str, Any]:
        """Scores of held-out rows: the bundled ones, distorted ones, and those of two more models."""
        data, logits = self.data, logit(np.clip(self.data.scores, 1e-6, 1 - 1e-6))
        numbers = np.column_stack([data.X[name] for name in NUMERIC])
        words = np.column_stack([data.X[name] for name in data.X if name not in NUMERIC])
        everything = np.column_stack([numbers, OrdinalEncoder().fit_transform(words)])
        boosting = HistGradientBoostingClassifier(
            categorical_features=np.arange(everything.shape[1]) >= len(NUMERIC),
            max_iter=60,
            random_state=0,
        )
        linear = make_pipeline(StandardScaler(), LogisticRegression())
        return {
            "logistic regression": data.scores,
            "logits doubled": expit(2 * logits),
            "logits halved": expit(logits / 2),
            "logistic regression, numbers only": _out_of_fold(linear, numbers, data.y),
            "gradient boosting": _out_of_fold(boosting, everything, data.y),
        }

    @cached_property
    def education(self) -> Any:
        """The level of education of each row, in five bands."""
        return np.array([_band(level) for level in self.data.X["education"]], object)


def grouping_diagram(census: Census) -> Any:
    """Draw each level set, split by cross-fitted predictions."""
    return census.result.plot().figure_


def segments(census: Census) -> Any:
    """Draw the gaps of the segments."""
    return GapsDisplay.from_audit(census.result).plot().figure_


def grouping_diagram_tree(census: Census) -> Any:
    """Draw all regions of the audit."""
    return census.result.plot(partition=None).figure_


def grouping_diagram_simulated(_: Census) -> Any:
    """Draw a calibrated classifier that ignores an informative feature."""
    sample = Sigmoid(perturbation="step").sample(8_000)
    return epiloss.audit(sample.y, sample.scores, sample.X).plot().figure_


def comparison(census: Census) -> Any:
    """Draw five models, before and after recalibration."""
    data = census.data
    result = epiloss.compare(data.y, census.models, data.X, recalibrate="isotonic", method="partition")
    return result.plot().figure_


def ledger(census: Census) -> Any:
    """Draw the decomposition of the score."""
    return LedgerDisplay(census.result).plot().figure_


def calibration_curve(census: Census) -> Any:
    """Draw the curve of scores that are too extreme."""
    scores = census.models["logits doubled"]
    result = epiloss.audit(census.data.y, scores, method="partition")
    return CurveDisplay.from_audit(result, name="logits doubled").plot().figure_


def heterogeneity(census: Census) -> Any:
    """Draw the heterogeneity between levels of education, for three models."""
    chosen = ("logistic regression", "logistic regression, numbers only", "gradient boosting")
    audits = {
        name: epiloss.audit(census.data.y, census.models[name], subgroups=census.education)
        for name in chosen
    }
    return HeterogeneityDisplay.from_audits(audits).plot(smallest=200).figure_


def simulation(_: Census) -> Any:
    """Draw the lower bound against the rows per region, with the known truth."""
    experiment = _experiment("simulation")
    summaries = experiment.summarise(experiment.run_trials(TRIALS, TRIAL_ROWS))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "simulation.csv"
        path.write_text(experiment.as_csv(summaries, TRIAL_ROWS), encoding="utf-8")
        return SimulationDisplay.from_csv(path).plot().figure_


PICTURES: dict[str, Callable[[Census], Any]] = {
    "grouping-diagram": grouping_diagram,
    "segments": segments,
    "grouping-diagram-tree": grouping_diagram_tree,
    "grouping-diagram-simulated": grouping_diagram_simulated,
    "comparison": comparison,
    "ledger": ledger,
    "calibration-curve": calibration_curve,
    "heterogeneity": heterogeneity,
    "simulation": simulation,
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
    census = Census(load_census_income())
    for name in options.only or PICTURES:
        path = options.output / f"{name}.png"
        save(PICTURES[name](census), path)
        pyplot.close("all")
        print(path)


def _experiment(name: str) -> ModuleType:
    """Import a module of the experiments, which are not on the path."""
    spec = spec_from_file_location(name, EXPERIMENTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their types there
    spec.loader.exec_module(module)
    return module


def _out_of_fold(model: Any, X: Any, y: Any) -> Any:
    return cross_val_predict(model, X, y, cv=5, method="predict_proba")[:, 1]


def _band(level: str) -> str:
    known = [band for start, band in BANDS.items() if level.startswith(start)]
    return known[0] if known else "no diploma"


if __name__ == "__main__":
    main()
