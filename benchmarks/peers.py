"""What epiloss and other packages report on the same problems with known truth.

    python benchmarks/peers.py
    python benchmarks/peers.py --markdown docs/peers_table.md

Every tool sees the same samples, in one process and on one thread. A value is the mean over the samples
± their standard deviation; *truth* is exact, or that of the rows drawn. CPU time is that of the call
alone, relative to epiloss in the same table, after a warm-up call on few rows. Packages that are not
installed are left out and named.
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

import numpy as np

import epiloss
from epiloss._saving import write_text
from epiloss.integrations.extraction.frameworks import import_torchvision
from epiloss.simulate import Problem, Sample, Sigmoid
from peer_tools import (
    Run,
    audited,
    decomposed,
    distance,
    finds_grouping,
    finds_miscalibration,
    glest_loss,
    mcgrad_repair,
    mcgrad_test,
    netcal_error,
    netcal_repair,
    own_repair,
    probmetrics_loss,
    probmetrics_repair,
    torch_uncertainty_error,
    torch_uncertainty_loss,
)

ROWS, REPETITIONS, TESTS = 10_000, 10, 60
QUICK_ROWS, QUICK_REPETITIONS = 1_500, 2
CLIP = 1e-6  # some tools fail on scores closer to 0 and 1; the losses do not change visibly
WARM_UP = 600
SCALE = 1e4  # of losses in the tables
PROBLEMS: Mapping[str, Problem] = {
    "subgroups differ": Sigmoid(perturbation="step", grouping=0.5, n_noise=3),
    "overconfident": Sigmoid(miscalibration=2.0, n_noise=3),
    "nothing wrong": Sigmoid(grouping=0.0, n_noise=3),
}
# the packages that each tool needs, some of which it does not declare
NEEDS = {
    "glest": ("glest",),
    "model-diagnostics": ("model_diagnostics",),
    "probmetrics": ("probmetrics", "numba"),
    "netcal": ("netcal",),
    "torch-uncertainty": ("torch_uncertainty", "lightning", "glest"),
    "mcgrad": ("mcgrad",),
}


@dataclass(frozen=True)
class Quantity:
    """A quantity that tools report, and its true value."""

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
    """The results of a job on the samples of each problem, with the truth of each sample."""

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
        "E (S - C)², x 10,000. Values of tools that sum over both classes are halved.",
        lambda problem, _: problem.truth().calibration_loss,
    ),
    "absolute error": Quantity(
        "Expected calibration error",
        "E |S - C|, x 10,000, which the ECE estimates. epiloss reports it among `result.metrics`.",
        lambda _, sample: float(np.mean(np.abs(sample.scores - sample.c))),
        ranked=False,
    ),
    "grouping loss": Quantity(
        "Grouping loss",
        "E (C - Q)², x 10,000. Values of tools that sum over both classes are halved.",
        lambda problem, _: problem.truth().grouping_loss,
    ),
    "test": Quantity(
        "Is anything wrong?",
        "The share of samples in which a tool finds an error. Where nothing is wrong, it should be at "
        "most 0.05, or 0.025 for a lower limit. According to its documentation, MCGrad's p-value is "
        "that of the worst of many segments, not adjusted for their number, and a difference above 5 "
        "standard deviations (sigma) is significant.",
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
        "row has the original scores.",
        lambda *_: 0.0,
    ),
}


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
    """Return a module that a package needs and that is not installed, or None."""
    needed = () if package is None else NEEDS[package]
    return next((one for one in needed if importlib.util.find_spec(one) is None), None)


def quietly(run: Run, sample: Sample, fresh: Sample) -> float:
    """Run a job without the warnings, progress bars and log lines of the package."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        return run(sample, fresh)


def clipped(sample: Sample) -> Sample:
    """Return the sample with scores clipped away from 0 and 1."""
    return replace(sample, scores=np.clip(sample.scores, CLIP, 1 - CLIP))


def measure(chosen: Sequence[Job], n: int, most: int) -> list[Measured]:
    """Run every job on the same samples, in turns; ``most`` limits the number of samples."""
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
    """Return one table in Markdown, and the tool that comes closest to the truth."""
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
            call = f" ({job.what})" if job.what else ""
            nearest.append(f"{name}: {job.tool}{call}, off by {about.scale * one.error(name):.1f}")
        lines += ["", "Closest to the truth (root mean square error): " + "; ".join(nearest) + "."]
    return [*lines, ""]


def _cell(values: Sequence[float], about: Quantity) -> str:
    mean = about.scale * np.mean(values)
    return f"{mean:.2f}" if about.is_share else f"{mean:z.1f} ± {about.scale * np.std(values):.1f}"


def page(chosen: Sequence[Job], found: Sequence[Measured], left_out: Mapping[str, str], n: int) -> str:
    """Return all tables in Markdown."""
    packages = sorted({job.package for job in chosen if job.package})
    lines = [
        f"Samples of {n:,} rows with 5 features, by epiloss "
        f"{epiloss.__version__}, "
        + ", ".join(f"{one} {version(one)}" for one in packages)
        + ". CPU times are relative to the first row of epiloss (for the ECE, of netcal).",
        "",
    ]
    lines += [
        f"Left out: {name}, because {reason} is not installed.\n" for name, reason in left_out.items()
    ]
    for quantity in QUANTITIES:
        lines += table(quantity, chosen, found)
    return "\n".join(lines)


def main() -> None:
    """Measure, print the tables, and write them to the page."""
    parser = argparse.ArgumentParser(description="Compare epiloss with other packages.")
    parser.add_argument("--quick", action="store_true", help="little data, as a smoke test")
    parser.add_argument("--markdown", type=Path, help="also write the tables here")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    if importlib.util.find_spec("torchvision") is not None:
        import_torchvision()  # torch's metrics import it if it is installed
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
