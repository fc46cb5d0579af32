"""What epiloss and its peers report of the same problems, whose truth is known.

    python benchmarks/peers.py
    python benchmarks/peers.py --markdown docs/peers_table.md

In one process, on one thread, every tool sees the same samples. A value is the mean over the samples ±
their standard deviation; *truth* is exact, or of the rows drawn. CPU time is that of the call alone, as
a ratio to epiloss in its table, after a call on few rows that loads what is needed. A peer that is not
installed is left out, and named.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before any library starts its threads
os.environ.setdefault("MPLBACKEND", "Agg")  # peers import pyplot

import contextlib
import importlib
import importlib.util
import io
import logging
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import epiloss
from epiloss._saving import write_text
from epiloss._typing import Floats
from epiloss.integrations.extraction.frameworks import import_torchvision
from epiloss.simulate import Problem, Sample, Sigmoid

ROWS, REPETITIONS, TESTS = 10_000, 10, 60
QUICK_ROWS, QUICK_REPETITIONS = 1_500, 2
CLIP = 1e-6  # scores nearer to 0 and 1 trip some tools; no loss of the tables sees it
WARM_UP = 600
BINS = 15
SCALE = 1e4  # of losses in the tables
PROBLEMS: Mapping[str, Problem] = {
    "subgroups differ": Sigmoid(perturbation="step", grouping=0.5, n_noise=3),
    "overconfident": Sigmoid(miscalibration=2.0, n_noise=3),
    "nothing wrong": Sigmoid(grouping=0.0, n_noise=3),
}
# what each package needs beside itself, which it does not ask for when it is installed
NEEDS = {
    "glest": ("glest",),
    "model-diagnostics": ("model_diagnostics",),
    "probmetrics": ("probmetrics", "numba"),
    "netcal": ("netcal",),
    "torch-uncertainty": ("torch_uncertainty", "lightning", "glest"),
    "mcgrad": ("mcgrad",),
}

Run = Callable[[Sample, Sample], float]


@dataclass(frozen=True)
class Quantity:
    """Something that tools report, and what it is in truth."""

    title: str
    note: str
    truth: Callable[[Problem, Sample], float]
    scale: float = SCALE
    is_share: bool = False
    ranked: bool = True  # whether to say which tool comes nearest to the truth
    repetitions: int = REPETITIONS


@dataclass(frozen=True)
class Job:
    """One number that one tool reports; ``package`` is None for ours."""

    quantity: str
    tool: str
    what: str
    package: str | None
    run: Run


@dataclass
class Measured:
    """What a job gave on each problem's samples, with the truth of each."""

    values: dict[str, list[float]] = field(default_factory=dict)
    truths: dict[str, list[float]] = field(default_factory=dict)
    cpu: list[float] = field(default_factory=list)

    def error(self, problem: str) -> float:
        """Return the root mean squared distance from the truth."""
        gap = np.array(self.values[problem]) - np.array(self.truths[problem])
        return float(np.sqrt(np.mean(gap**2)))


QUANTITIES: Mapping[str, Quantity] = {
    "calibration loss": Quantity(
        "Calibration loss",
        "E (S - C)², x 10,000. Tools that add up both classes report twice this; it was halved.",
        lambda problem, _: problem.truth().calibration_loss,
    ),
    "absolute error": Quantity(
        "Expected calibration error",
        "E |S - C|, x 10,000: what the ECE estimates. epiloss has no such number, because its square is "
        "what adds up.",
        lambda _, sample: float(np.mean(np.abs(sample.scores - sample.c))),
        ranked=False,
    ),
    "grouping loss": Quantity(
        "Grouping loss",
        "E (C - Q)², x 10,000. Lower bounds are above the truth only by chance. Tools that add up both "
        "classes report twice this; it was halved.",
        lambda problem, _: problem.truth().grouping_loss,
    ),
    "test": Quantity(
        "Is somebody misjudged?",
        "The share of samples in which a tool says so. Where nothing is wrong it should be at most "
        "0.05, or 0.025 for a lower limit. MCGrad's p-value is that of the worst of many segments, not "
        "adjusted for their number, as its documentation says; which also says that above 5 standard "
        "deviations (sigma) a difference is significant.",
        lambda problem, _: float(
            problem.truth().calibration_loss + problem.truth().grouping_loss > 1e-12
        ),
        scale=1.0,
        is_share=True,
        ranked=False,
        repetitions=TESTS,
    ),
    "repair": Quantity(
        "Repair",
        "E (P - Q)², x 10,000: the distance to the true probabilities, on as many new rows. The first "
        "row is of the scores as given.",
        lambda *_: 0.0,
    ),
}


def audited(sample: Sample, features: bool = True, **options: Any) -> epiloss.Audit:
    """Audit a sample."""
    return epiloss.audit(sample.y, sample.scores, sample.X if features else None, **options)


def distance(probabilities: Any, fresh: Sample) -> float:
    """Return how far probabilities are from the truth, which a simulation knows."""
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
    """Return a way to get the calibration error of probmetrics, cross-validated."""

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
    """Return the top label's grouping loss by torch-uncertainty, which asks glest."""
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
    """Return a way to ask MCGrad's multicalibration error whether a segment is misjudged."""

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
    """Return a way to repair by epiloss."""

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


def jobs() -> list[Job]:
    """Return all jobs, ours first in each table."""
    loss, error, gl, test, repair = QUANTITIES
    return [
        Job(
            loss, "epiloss", "`audit(y, p)`", None, lambda s, _: audited(s, False).calibration_loss.value
        ),
        Job(loss, "model-diagnostics", "`decompose`: miscalibration", "model-diagnostics", decomposed),
        Job(loss, "probmetrics", "by temperature scaling", "probmetrics", probmetrics_loss("ts-mix")),
        Job(
            loss,
            "probmetrics",
            "by isotonic regression",
            "probmetrics",
            probmetrics_loss("isotonic-mix"),
        ),
        Job(error, "netcal", "`ECE(15)`", "netcal", netcal_error),
        Job(
            error,
            "torch-uncertainty",
            "`CalibrationError`",
            "torch-uncertainty",
            torch_uncertainty_error,
        ),
        Job(gl, "epiloss", "`audit(y, p, X)`", None, lambda s, _: audited(s).grouping_loss.value),
        Job(
            gl,
            "epiloss",
            '`method="partition"`',
            None,
            lambda s, _: audited(s, method="partition").grouping_loss.value,
        ),
        Job(gl, "glest", "`GLEstimator`", "glest", glest_loss),
        Job(gl, "torch-uncertainty", "`GroupingLoss`", "torch-uncertainty", torch_uncertainty_loss),
        Job(test, "epiloss", "grouping loss, p < 0.05", None, finds_grouping),
        Job(test, "epiloss", "calibration loss, lower limit > 0", None, finds_miscalibration),
        Job(test, "MCGrad", "`mce_pvalue < 0.05`", "mcgrad", mcgrad_test(lambda e: e.mce_pvalue < 0.05)),
        Job(test, "MCGrad", "`mce_sigma > 5`", "mcgrad", mcgrad_test(lambda e: e.mce_sigma > 5)),
        Job(repair, "as given", "", None, lambda _, fresh: distance(fresh.scores, fresh)),
        Job(repair, "epiloss", "`RegionRecalibrator()`", None, own_repair("boosted")),
        Job(repair, "epiloss", '`RegionRecalibrator("regions")`', None, own_repair("regions")),
        Job(repair, "MCGrad", "`MCGrad()`", "mcgrad", mcgrad_repair),
        Job(repair, "netcal", "`BetaCalibration()`", "netcal", netcal_repair),
        Job(repair, "probmetrics", "temperature scaling", "probmetrics", probmetrics_repair),
    ]


def missing(package: str | None) -> str | None:
    """Return what is missing for a package, if something is."""
    needed = () if package is None else NEEDS[package]
    return next((one for one in needed if importlib.util.find_spec(one) is None), None)


def quietly(run: Run, sample: Sample, fresh: Sample) -> float:
    """Run a job without the warnings, bars and log lines that are a peer's own."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        return run(sample, fresh)


def clipped(sample: Sample) -> Sample:
    """Return the sample with scores a little away from 0 and 1."""
    return replace(sample, scores=np.clip(sample.scores, CLIP, 1 - CLIP))


def measure(chosen: Sequence[Job], n: int, most: int) -> list[Measured]:
    """Run every job on the same samples, in turns; ``most`` bounds their number."""
    found = [Measured() for _ in chosen]
    small, other = (
        PROBLEMS["subgroups differ"].sample(WARM_UP, random_state=seed) for seed in (998, 999)
    )
    for job in chosen:
        quietly(job.run, small, other)
    for name, problem in PROBLEMS.items():
        for seed in range(min(most, TESTS)):
            sample, fresh = (clipped(problem.sample(n, random_state=2 * seed + k)) for k in (0, 1))
            for job, one in zip(chosen, found, strict=True):
                about = QUANTITIES[job.quantity]
                if seed >= about.repetitions:
                    continue
                start = time.process_time()
                value = quietly(job.run, sample, fresh)
                one.cpu.append(time.process_time() - start)
                one.values.setdefault(name, []).append(value)
                one.truths.setdefault(name, []).append(about.truth(problem, sample))
    return found


def table(quantity: str, chosen: Sequence[Job], found: Sequence[Measured]) -> list[str]:
    """Return one table in Markdown, and who comes nearest to the truth."""
    about = QUANTITIES[quantity]
    rows = [(job, one) for job, one in zip(chosen, found, strict=True) if job.quantity == quantity]
    if not rows:
        return []
    base = next((one for job, one in rows if job.tool == "epiloss"), rows[0][1])
    names = list(PROBLEMS)
    samples = len(rows[0][1].values[names[0]])
    lines = [f"### {about.title}", "", f"{about.note} Each problem: {samples} samples.", ""]
    lines += [
        f"| tool | | {' | '.join(names)} | CPU |",
        "|---|---|" + "---:|" * (len(names) + 1),
    ]
    truth = [f"{about.scale * np.mean(rows[0][1].truths[name]):.1f}" for name in names]
    if not about.is_share and quantity != "repair":
        lines.append(f"| *truth* | | {' | '.join(f'*{one}*' for one in truth)} | |")
    for job, one in rows:
        cells = [_cell(one.values[name], about) for name in names]
        ratio = "" if job.tool == "as given" else f"{np.sum(one.cpu) / np.sum(base.cpu):.2g}"
        lines.append(f"| {job.tool} | {job.what} | {' | '.join(cells)} | {ratio} |")
    if about.ranked:
        nearest = []
        for name in names:
            job, one = min(rows, key=lambda pair, name=name: pair[1].error(name))  # type: ignore[misc]
            told = f" ({job.what})" if job.what else ""
            nearest.append(f"{name}: {job.tool}{told}, off by {about.scale * one.error(name):.1f}")
        lines += ["", "Nearest to the truth, root mean square: " + "; ".join(nearest) + "."]
    return [*lines, ""]


def _cell(values: Sequence[float], about: Quantity) -> str:
    mean = about.scale * np.mean(values)
    return f"{mean:.2f}" if about.is_share else f"{mean:z.1f} ± {about.scale * np.std(values):.1f}"


def page(chosen: Sequence[Job], found: Sequence[Measured], left_out: Mapping[str, str], n: int) -> str:
    """Return everything that was measured, in Markdown."""
    packages = sorted({job.package for job in chosen if job.package})
    lines = [
        f"Samples of {n:,} rows with 5 features, by epiloss "
        f"{epiloss.__version__}, "
        + ", ".join(f"{one} {version(one)}" for one in packages)
        + ". CPU time is a ratio to epiloss's first row (of the ECE, to netcal's).",
        "",
    ]
    lines += [
        f"Left out: {name}, because {reason} is not installed.\n" for name, reason in left_out.items()
    ]
    for quantity in QUANTITIES:
        lines += table(quantity, chosen, found)
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the page's tables."""
    parser = argparse.ArgumentParser(description="epiloss beside its peers, where the truth is known")
    parser.add_argument("--quick", action="store_true", help="little data, to see that it runs")
    parser.add_argument("--markdown", type=Path, help="also write the tables here")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    if importlib.util.find_spec("torchvision") is not None:
        import_torchvision()  # which torch's metrics load where it is there
    left_out = {one: reason for one in NEEDS if (reason := missing(one)) is not None}
    for name, reason in left_out.items():
        print(f"{name} is left out: {reason} is not installed", file=sys.stderr)
    chosen = [job for job in jobs() if job.package not in left_out]
    n, repetitions = (QUICK_ROWS, QUICK_REPETITIONS) if options.quick else (ROWS, TESTS)
    text = page(chosen, measure(chosen, n, repetitions), left_out, n)
    print(text)
    if options.markdown:
        write_text(options.markdown, text)


if __name__ == "__main__":
    main()
