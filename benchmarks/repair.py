"""What repairs are worth on held-out rows, compared with other packages.

    python benchmarks/repair.py
    python benchmarks/repair.py --sets "smooth, 2,500 rows" "Adult, logistic" --repetitions 5
    python benchmarks/repair.py --markdown docs/repair.md

On each data set every method learns from the same rows and is measured on the same held-out rows: by the
Brier score, the log-loss (probabilities clipped to [1e-6, 1 - 1e-6]), the calibration and grouping loss
of ``epiloss.audit`` and, in simulations, the mean squared distance to the true probabilities. With
several classes, both scores are sums over the classes, and methods for one class are applied to each.

Differences from the original scores and from MCGrad are paired. Their 95% intervals are over held-out
rows, or over repetitions if a simulation has at least five. Splits of the same real rows depend on each
other, so more of them do not make those intervals narrower. CPU time is that of fit and predict on one
thread, relative to MCGrad in the same run. Data sets with about 100,000 rows for the repair are repeated
once.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import logging
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student
from threadpoolctl import threadpool_limits

import epiloss
from epiloss._saving import write_text
from epiloss._typing import Floats
from epiloss.simulate import Sigmoid
from repair_data import (
    CLIP,
    GIVEN,
    METHODS,
    OURS,
    PEER,
    DataSet,
    Split,
    UnavailableError,
    data_sets,
    simulation,
)
from reporting import Verdict

SCORES = ("brier", "log_loss")
LABELS = {"brier": "Brier score", "log_loss": "log-loss"}
ENOUGH_REPETITIONS = 5  # for an interval over them
QUICK_ROWS = 600
PAGE = """# What repairs are worth

`python benchmarks/repair.py --markdown docs/repair.md` repairs the scores of base models on some rows
and measures the result on others. `boosted`, the default, and `regions` are
`RegionRecalibrator(method=...)`. They are compared with isotonic regression, scaling (Platt; a
temperature for several classes), scikit-learn's `CalibratedClassifierCV`, and MCGrad 0.1.5 at its
defaults. `regions` corrects by regions with readable descriptions; it is less accurate than `boosted` if
the correction is smooth, or depends on many columns that each contribute little.

A data set is "won" or "lost" if the 95% interval of the paired difference from MCGrad excludes 0; one in
forty is lost by chance:
"""
COLUMNS = """In the tables, CL and GL are the calibration loss and the grouping loss that
`epiloss.audit` finds on the held-out rows, and (p-q)² is the distance to the true probabilities, in
simulations.
"""


@dataclass(frozen=True)
class Measured:
    """One method on one split: the scores of each held-out row, and the losses of the audit."""

    brier: Floats
    log_loss: Floats
    calibration_loss: float
    grouping_loss: float
    distance: float
    cpu: float


@dataclass(frozen=True)
class Difference:
    """A mean paired difference, and half the width of its 95% interval."""

    value: float
    margin: float

    @property
    def worse(self) -> bool:
        """Whether it is significantly above 0."""
        return self.value > self.margin

    def __str__(self) -> str:
        return f"{1e4 * self.value:+8.1f} ±{1e4 * self.margin:5.1f}"


@dataclass(frozen=True)
class Line:
    """Means over the repetitions of one method on one data set; ``cpu`` are seconds."""

    data: str
    method: str
    brier: float
    log_loss: float
    calibration_loss: float
    grouping_loss: float
    distance: float | None
    cpu: float
    cpu_ratio: float | None
    null: bool
    from_given: Mapping[str, Difference] = field(default_factory=dict)
    from_peer: Mapping[str, Difference] = field(default_factory=dict)

    def __str__(self) -> str:
        cells = [f"{self.method:16}"]
        for name in SCORES:
            cells.append(f"{1e4 * getattr(self, name):8.1f}")
            for differences in (self.from_given, self.from_peer):
                cells.append(str(differences[name]) if name in differences else " " * 15)
        cells += [f"{1e4 * self.calibration_loss:z7.1f} {1e4 * self.grouping_loss:z7.1f}"]
        cells.append(" " * 7 if self.distance is None else f"{1e4 * self.distance:7.1f}")
        cells.append("" if self.cpu_ratio is None else f"{self.cpu_ratio:6.2f}")
        return " ".join(cells).rstrip()


HEADER = (
    f"{'':16} {'Brier':>8} {'- as given':>15} {'- MCGrad':>15} {'log-loss':>8} {'- as given':>15} "
    f"{'- MCGrad':>15} {'CL':>7} {'GL':>7} {'(p-q)²':>7} {'CPU':>6}"
)


HEADING = (
    "Held-out losses x 1e-4, {} repetition(s), one for the KDD census and the flights; differences ± "
    "half of their 95% interval; CPU: relative to MCGrad."
)


def measure(split: Split, method: str, seed: int) -> Measured:
    """Repair, time it, and measure on the held-out rows."""
    started = time.process_time()
    p = METHODS[method](split, seed)
    cpu = time.process_time() - started
    held_out = split.held_out
    audit = epiloss.audit(
        held_out.y, p, held_out.X, task="binary" if p.ndim == 1 else "classwise", random_state=seed
    )
    distance = float("nan") if held_out.q is None else float(np.mean(_summed((p - held_out.q) ** 2)))
    losses = audit.calibration_loss.value, audit.grouping_loss.value
    return Measured(*row_scores(p, held_out.y), *losses, distance, cpu)


def row_scores(p: Floats, y: Any) -> tuple[Floats, Floats]:
    """Return the Brier score and the log-loss of each row."""
    if p.ndim == 1:
        chosen, hits = np.where(y == 1, p, 1 - p), (y == 1).astype(float)
    else:
        chosen, hits = p[np.arange(len(y)), y], np.eye(p.shape[1])[y]
    return _summed((p - hits) ** 2), np.asarray(-np.log(np.clip(chosen, CLIP, 1 - CLIP)), float)


def difference(one: Sequence[Floats], other: Sequence[Floats], *, simulated: bool) -> Difference:
    """Return the mean paired difference over repetitions, which have one value per row."""
    gaps = [a - b for a, b in zip(one, other, strict=True)]
    means = np.array([gap.mean() for gap in gaps])
    errors = np.array([gap.std(ddof=1) / np.sqrt(len(gap)) for gap in gaps])
    n = len(gaps)
    if simulated and n >= ENOUGH_REPETITIONS:
        margin = student.ppf(0.975, n - 1) * means.std(ddof=1) / np.sqrt(n)
    elif simulated:
        margin = 1.96 * np.sqrt((errors**2).sum()) / n
    else:
        margin = 1.96 * errors.mean()
    return Difference(float(means.mean()), float(margin))


def compare(data: DataSet, methods: Sequence[str], repetitions: int, cache: Path) -> list[Line]:
    """Measure all methods on the same splits of one data set."""
    found: dict[str, list[Measured]] = {method: [] for method in methods}
    for seed in range(min(repetitions, data.most)):
        split = data.split(seed, cache)
        for method in methods:
            if method.startswith("sklearn") and split.model is None:
                continue
            print(f"{data.name}: {method}, repetition {seed + 1}", file=sys.stderr, flush=True)
            found[method].append(measure(split, method, seed))
    return lines_of(data, found)


def lines_of(data: DataSet, found: Mapping[str, Sequence[Measured]]) -> list[Line]:
    """Return a line for each method that was measured."""

    def against(other: str, method: str) -> dict[str, Difference]:
        if other == method or not found.get(other):
            return {}
        pairs = {
            name: [[getattr(one, name) for one in found[m]] for m in (method, other)] for name in SCORES
        }
        return {name: difference(*pair, simulated=data.simulated) for name, pair in pairs.items()}

    peer_cpu = sum(one.cpu for one in found.get(PEER, ()))
    lines = []
    for method, measured in found.items():
        if not measured:
            continue
        names = ("brier", "log_loss", "calibration_loss", "grouping_loss", "distance", "cpu")
        mean = {
            name: float(np.mean([np.mean(getattr(one, name)) for one in measured])) for name in names
        }
        known = None if np.isnan(mean["distance"]) else mean.pop("distance")
        ratio = sum(one.cpu for one in measured) / peer_cpu if peer_cpu and method != GIVEN else None
        values: dict[str, Any] = mean | {"distance": known, "cpu_ratio": ratio, "null": data.null}
        values |= {"from_given": against(GIVEN, method), "from_peer": against(PEER, method)}
        lines.append(Line(data.name, method, **values))
    return lines


def judge(lines: Sequence[Line]) -> list[Verdict]:
    """Compare the results with the targets, for each of our methods."""
    verdicts = []
    for method in OURS:
        mine = [line for line in lines if line.method == method]
        compared = [line for line in mine if line.from_peer]
        for name in SCORES if compared else ():
            worse = [line.data for line in compared if line.from_peer[name].worse]
            text = f"{len(worse)} of {len(compared)} above" + (f" ({'; '.join(worse)})" if worse else "")
            verdicts.append(Verdict(f"{method}, {name}, not above MCGrad on any set", not worse, text))
            share = float(
                np.mean(
                    [
                        line.from_peer[name].value / (getattr(line, name) - line.from_peer[name].value)
                        for line in compared
                    ]
                )
            )
            verdicts.append(
                Verdict(f"{method}, {name}, below MCGrad in the mean", share < 0, f"{share:+.2%}")
            )
        ratios = {line.data: line.cpu_ratio for line in compared if line.cpu_ratio is not None}
        if ratios:
            slowest = max(ratios, key=lambda data: ratios[data])
            middle = float(np.exp(np.mean(np.log(list(ratios.values())))))
            text = f"{middle:.2f} in the geometric mean, at most {ratios[slowest]:.2f} ({slowest})"
            target = f"{method}, no more CPU time than MCGrad on any set"
            verdicts.append(Verdict(target, ratios[slowest] <= 1, text))
        for line in (line for line in mine if line.null):
            for name in SCORES:
                change = line.from_given[name]
                target = f"{method}, {name}, nothing to repair ({line.data}): no worse than as given"
                verdicts.append(Verdict(target, not change.worse, f"{str(change).strip()} x 1e-4"))
    return verdicts


def block(lines: Sequence[Line]) -> str:
    """Return the table of one data set."""
    return "\n".join(["", lines[0].data, HEADER, *map(str, lines)])


def ending(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts, and how many are met."""
    met = sum(verdict.met for verdict in verdicts)
    return "\n".join(["", *map(str, verdicts), "", f"{met} of {len(verdicts)} targets met"])


def run(names: Sequence[str], known: Mapping[str, DataSet], options: argparse.Namespace) -> list[Line]:
    """Compare on each data set, print its table and save the lines so far."""
    methods = list(METHODS)
    if importlib.util.find_spec("mcgrad") is None:
        _print(options, "MCGrad is left out: it is not installed (pip install mcgrad==0.1.5).")
        methods.remove(PEER)
    else:
        importlib.import_module(
            "mcgrad.methods"
        )  # LightGBM must be loaded before its threads can be limited
    lines: list[Line] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tiny = simulation("warm-up", Sigmoid(), QUICK_ROWS)
        with threadpool_limits(1):
            compare(tiny, methods, 1, options.cache)  # a warm-up, so that imports are not timed
            for name in names:
                try:
                    found = compare(known[name], methods, options.repetitions, options.cache)
                except UnavailableError as error:
                    _print(options, f"\n{name} is left out: {error}")
                    continue
                lines += found
                _print(options, block(found))
                save(lines, [], options.output)
    return lines


def save(lines: Sequence[Line], verdicts: Sequence[Verdict], folder: Path) -> None:
    """Write everything as JSON."""
    plain = {"lines": [asdict(one) for one in lines], "verdicts": [asdict(one) for one in verdicts]}
    write_text(folder / "repair.json", json.dumps(plain, indent=2, allow_nan=False) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare on every data set, print the tables and the verdicts, and save them."""
    options = _options(arguments)
    options.printed = []
    options.output.mkdir(parents=True, exist_ok=True)  # fails before the work, not after
    logging.getLogger("mcgrad").setLevel(logging.ERROR)
    quick = simulation("quick", Sigmoid(grouping=0.0), QUICK_ROWS, null=True)
    known = {quick.name: quick} if options.quick else data_sets()
    _print(options, HEADING.format(options.repetitions))
    lines = run(options.sets or list(known), known, options)
    verdicts = judge(lines)
    _print(options, ending(verdicts))
    save(lines, verdicts, options.output)
    if options.markdown is not None:
        write_text(options.markdown, markdown("\n".join(options.printed), lines))


def _print(options: argparse.Namespace, text: str) -> None:
    """Print text, and keep it for the page."""
    print(text, flush=True)
    options.printed.append(text)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare repairs on held-out rows.")
    parser.add_argument("--quick", action="store_true", help="one tiny simulation")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument(
        "--sets", nargs="+", choices=list(data_sets()), metavar="NAME", help="default all"
    )
    parser.add_argument("--output", type=Path, default=Path("benchmarks/output"))
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "epiloss-benchmarks")
    parser.add_argument("--markdown", type=Path, help="also write the report to this file")
    options = parser.parse_args(arguments)
    if options.repetitions < 1:
        parser.error(f"--repetitions must be at least 1, got {options.repetitions}")
    if options.quick and options.sets:
        parser.error("--quick uses a data set of its own and cannot be combined with --sets")
    return options


def markdown(text: str, lines: Sequence[Line]) -> str:
    """Return the report as a page, with the data sets won and lost."""
    return "\n".join([PAGE, *_standing(lines), "", COLUMNS, "```", text, "```", ""])


def _standing(lines: Sequence[Line]) -> list[str]:
    """Return the data sets won and lost against MCGrad, for each of our methods and scores."""
    text = []
    for method in OURS:
        compared = [line for line in lines if line.method == method and line.from_peer]
        for name in SCORES if compared else ():
            lost = [line for line in compared if line.from_peer[name].worse]
            won = sum(line.from_peer[name].value < -line.from_peer[name].margin for line in compared)
            even = len(compared) - won - len(lost)
            where = "; ".join(f"{one.data} ({str(one.from_peer[name]).strip()})" for one in lost)
            text.append(
                f"- **{method}, {LABELS[name]}**: {won} sets won, {even} even, "
                + (f"{len(lost)} lost: {where}." if lost else "none lost.")
            )
    return text


def _summed(values: Floats) -> Floats:
    return values if values.ndim == 1 else np.asarray(values.sum(axis=1), float)


if __name__ == "__main__":
    main()
