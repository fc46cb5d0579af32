"""Calls of epiloss and of other packages, each of which returns one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import epiloss
from epiloss._typing import Floats
from epiloss.simulate import Sample

BINS = 15
Run = Callable[[Sample, Sample], float]


def audited(sample: Sample, features: bool = True, **options: Any) -> epiloss.Audit:
    """Audit a sample."""
    return epiloss.audit(sample.y, sample.scores, sample.X if features else None, **options)


def distance(probabilities: Any, fresh: Sample) -> float:
    """Return the mean squared distance of probabilities from the true ones."""
    return float(np.mean((np.asarray(probabilities, float) - fresh.q) ** 2))


def two_columns(scores: Floats) -> Any:
    """Return the scores of both classes as a tensor."""
    import torch

    return torch.from_numpy(np.column_stack([1 - scores, scores]))


def glest_loss(sample: Sample, _: Sample) -> float:
    """Return the grouping loss by glest at its defaults."""
    import glest

    found = glest.GLEstimator(sample.scores, random_state=0).fit(sample.X, sample.y).metrics("brier")
    return float(found["GL"]) / 2


def decomposed(sample: Sample, _: Sample) -> float:
    """Return the miscalibration of model-diagnostics' decomposition."""
    from model_diagnostics.scoring import SquaredError, decompose

    return float(
        decompose(sample.y, sample.scores, scoring_function=SquaredError())["miscalibration"][0]
    )


def probmetrics_loss(calibrator: str) -> Run:
    """Return a function that computes the cross-validated calibration error of probmetrics."""

    def run(sample: Sample, _: Sample) -> float:
        import torch
        from probmetrics.metrics import Metrics

        name = f"calib-err_brier_{calibrator}_cv-5"
        labels = torch.from_numpy(sample.y)
        found = Metrics.from_names([name]).compute_all_from_labels_probs(
            labels, two_columns(sample.scores)
        )
        return float(found[name]) / 2

    return run


def netcal_error(sample: Sample, _: Sample) -> float:
    """Return netcal's expected calibration error."""
    from netcal.metrics import ECE

    return float(ECE(BINS).measure(sample.scores, sample.y))


def torch_uncertainty_error(sample: Sample, _: Sample) -> float:
    """Return the expected calibration error of torch-uncertainty."""
    import torch
    from torch_uncertainty.metrics import CalibrationError

    metric = CalibrationError(task="binary", num_bins=BINS, norm="l1")
    metric.update(torch.from_numpy(sample.scores), torch.from_numpy(sample.y))
    return float(metric.compute())


def torch_uncertainty_loss(sample: Sample, _: Sample) -> float:
    """Return the grouping loss of the top label by torch-uncertainty, which calls glest."""
    import torch
    from torch_uncertainty.metrics import GroupingLoss

    metric = GroupingLoss()
    metric.estimator.random_state = 0  # which it leaves open
    metric.update(two_columns(sample.scores), torch.from_numpy(sample.y), torch.from_numpy(sample.X))
    return float(metric.compute()) / 2


def as_frame(sample: Sample) -> tuple[Any, list[str]]:
    """Return a sample as a data frame, and the names of its features."""
    import pandas

    names = [f"x{j}" for j in range(sample.X.shape[1])]
    return pandas.DataFrame(sample.X, columns=names).assign(label=sample.y, score=sample.scores), names


def mcgrad_test(is_found: Callable[[Any], bool]) -> Run:
    """Return a function that tests for misjudged segments by MCGrad's multicalibration error."""

    def run(sample: Sample, _: Sample) -> float:
        from mcgrad.metrics import MulticalibrationError

        frame, names = as_frame(sample)
        columns = {"label_column": "label", "score_column": "score", "numerical_segment_columns": names}
        return float(is_found(MulticalibrationError(df=frame, **columns)))

    return run


def mcgrad_repair(sample: Sample, fresh: Sample) -> float:
    """Return the distance to the truth after MCGrad at its defaults."""
    from mcgrad.methods import MCGrad

    (frame, names), (later, _) = as_frame(sample), as_frame(fresh)
    model = MCGrad(random_state=0).fit(frame, "score", "label", None, None, names)
    return distance(model.predict(later, "score", None, names), fresh)


def own_repair(method: str) -> Run:
    """Return a function that repairs scores with epiloss."""

    def run(sample: Sample, fresh: Sample) -> float:
        repair = epiloss.RegionRecalibrator(method).fit(sample.y, sample.scores, sample.X)
        return distance(repair.predict(fresh.scores, fresh.X), fresh)

    return run


def netcal_repair(sample: Sample, fresh: Sample) -> float:
    """Return the distance to the truth after beta calibration by netcal."""
    from netcal.scaling import BetaCalibration

    model = BetaCalibration().fit(sample.scores, sample.y)
    return distance(model.transform(fresh.scores), fresh)


def probmetrics_repair(sample: Sample, fresh: Sample) -> float:
    """Return the distance to the truth after temperature scaling by probmetrics."""
    from probmetrics.calibrators import get_calibrator

    given, later = (np.column_stack([1 - one.scores, one.scores]) for one in (sample, fresh))
    model = get_calibrator("temp-scaling", calibrate_with_mixture=True).fit(given, sample.y)
    return distance(model.predict_proba(later)[:, 1], fresh)


def finds_grouping(sample: Sample, _: Sample) -> float:
    """Return whether the test of no grouping loss rejects."""
    pvalue = audited(sample).grouping_loss.pvalue
    return float(pvalue is not None and pvalue < 0.05)


def finds_miscalibration(sample: Sample, _: Sample) -> float:
    """Return whether the interval of the calibration loss lies above zero."""
    low = audited(sample, False).calibration_loss.low
    return float(low is not None and low > 0)
