"""All options of an audit in one frozen object, checked and resolved once.

``audit``, ``audit_table``, ``compare``, ``drift``, ``RegionPlan`` and the command line share these
options: an option that is added here is available in all of them.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epiloss._models import described
from epiloss._random import RandomState, seed_of
from epiloss._typing import Floats
from epiloss.calibration.class_recalibrators import CLASS_RECALIBRATORS
from epiloss.calibration.curves import CurveFitter, resolve_curve
from epiloss.calibration.level_sets import check_strategy, checked_bins, checked_count
from epiloss.calibration.recalibrators import RECALIBRATORS, check_recalibrate
from epiloss.errors import OptionError
from epiloss.estimation.crossfit.learners import Learner, resolve_learner
from epiloss.input.checks import TASKS
from epiloss.input.problem import Reading
from epiloss.partition import Partitioner, Tree, resolve_partition
from epiloss.scoring import ScoringRule, resolve_rule

METHODS = ("twin", "crossfit", "partition", "paper")
_LEARNING = ("twin", "crossfit")  # methods that use a learner instead of bins
ADJUSTMENTS = ("benjamini-hochberg", "max")
PAPER_REGION_RATIO = 30
# Former names of options, and names in other packages.
_OTHER_NAMES = {
    "bins": "n_bins",
    "binning": "strategy",
    "level": "confidence_level",
    "alpha": "confidence_level",
    "groups": "subgroups",
    "sensitive_features": "subgroups",
    "region_ratio": "partition",
    "seed": "random_state",
}


@dataclass(frozen=True)
class Options:
    """The options of an audit, with names resolved to objects."""

    reading: Reading
    rule: ScoringRule
    method: str
    n_bins: int | Sequence[float]
    strategy: str
    partitioner: Partitioner
    curve: CurveFitter
    learner: Learner
    learner_given: Any
    split: float
    repeats: int
    recalibrate: Any
    adjust: str
    confidence_level: float
    tolerance: float
    seed: int
    n_jobs: int | None
    verbose: bool | None

    @classmethod
    def read(
        cls,
        *,
        task: str | None = None,
        rule: str | ScoringRule = "brier",
        method: str = "twin",
        n_bins: int | Sequence[float] = 15,
        strategy: str = "uniform",
        partition: Any = "tree",
        curve: str | CurveFitter | Callable[[Floats], Floats] | None = None,
        learner: Any = None,
        split: float = 0.5,
        repeats: int = 1,
        recalibrate: Any = None,
        adjust: str = "benjamini-hochberg",
        confidence_level: float = 0.95,
        tolerance: float = 0.01,
        pos_label: Any = None,
        classes: Sequence[Any] | None = None,
        drop_missing: bool = False,
        logits: bool = False,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        verbose: bool | None = None,
    ) -> Options:
        """Check the options of :func:`epiloss.audit`, and resolve names to objects."""
        _check_method(method, learner)
        _check_choice("adjust", adjust, ADJUSTMENTS)
        if task is not None:
            _check_choice("task", task, TASKS)
        check_strategy(strategy)
        checked_bins(n_bins)
        _check_fraction("split", split, "Use 0.5 to learn on half of the rows.")
        _check_fraction("confidence_level", confidence_level, "Use 0.95 for 95% intervals.")
        _check_fraction("tolerance", tolerance, "Use 0.01 for 1% of the base rate's score.")
        _check_counts(repeats, n_jobs)
        if method == "paper" and isinstance(partition, str) and partition == "tree":
            partition = Tree(PAPER_REGION_RATIO)
        check_recalibrate(recalibrate)  # report an invalid option before any work is done
        scoring_rule = resolve_rule(rule)
        options = cls(
            reading=Reading(task, pos_label, classes, drop_missing, logits),
            rule=scoring_rule,
            method=method,
            n_bins=int(n_bins) if isinstance(n_bins, np.integer) else n_bins,
            strategy=strategy,
            partitioner=resolve_partition(partition),
            curve=resolve_curve(curve, undersmooth=scoring_rule.bounded),
            learner=resolve_learner(learner),
            learner_given=learner,
            split=split,
            repeats=int(repeats),
            recalibrate=recalibrate,
            adjust=adjust,
            confidence_level=confidence_level,
            tolerance=tolerance,
            seed=seed_of(random_state),
            n_jobs=None if n_jobs is None else int(n_jobs),
            verbose=verbose,
        )
        if task is not None:
            options.check_task(task)
        return options

    @property
    def swap(self) -> bool:
        """Whether learning and evaluation rows are also swapped; the paper does not do so."""
        return self.method != "paper"

    @property
    def without_bins(self) -> bool:
        """Whether the method needs no bins (twin learners or cross-fitting)."""
        return self.method in _LEARNING

    @property
    def recalibrates_together(self) -> bool:
        """Whether the scores of several classes are recalibrated jointly."""
        return isinstance(self.recalibrate, str) and self.recalibrate in CLASS_RECALIBRATORS

    def check_task(self, task: str) -> None:
        """Raise an OptionError if options do not apply to a task."""
        if task == "binary" and self.recalibrates_together and self.recalibrate not in RECALIBRATORS:
            raise OptionError(
                f"recalibrate={self.recalibrate!r} needs the scores of several classes, got task "
                "'binary'. Use 'beta', its equivalent for a single score."
            )
        if task != "joint":
            return
        if self.recalibrate is not None or np.ndim(self.n_bins) > 0:
            raise OptionError(
                "task 'joint' conditions on the whole score vector: n_bins must be a number, and "
                "recalibrate is not available. Use task='classwise' instead."
            )
        checked_count(self.n_bins)

    def check_rows(self, n_rows: int) -> None:
        """Raise an OptionError if there are more bins than rows; the default is always allowed."""
        n_bins = self.n_bins if isinstance(self.n_bins, int) else len(self.n_bins) - 1
        if n_bins > max(n_rows, DEFAULTS["n_bins"]):
            raise OptionError(
                f"n_bins must be at most the number of rows in memory, {n_rows:,}, got {n_bins:,}. "
                f"Use fewer: {DEFAULTS['n_bins']} is the default."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the options as plain values, for display and saving."""
        return {
            "method": self.method,
            "n_bins": np.asarray(self.n_bins).tolist(),
            "strategy": self.strategy,
            "partition": self.partitioner.name,
            "region_ratio": self.partitioner.region_ratio
            if isinstance(self.partitioner, Tree)
            else None,
            "curve": type(self.curve).__name__,
            "learner": None if self.learner_given is None else described(self.learner_given),
            "split": self.split,
            "repeats": self.repeats,
            "recalibrate": None if self.recalibrate is None else str(self.recalibrate),
            "adjust": self.adjust,
            "confidence_level": self.confidence_level,
            "tolerance": self.tolerance,
            "random_state": self.seed,
        }


DEFAULTS: Mapping[str, Any] = {
    name: one.default for name, one in inspect.signature(Options.read).parameters.items()
}


def read_options(given: Mapping[str, Any], function: str, others: Sequence[str] = ()) -> Options:
    """Read the options passed to a function that also has options of its own, ``others``."""
    for name in given:
        if name in DEFAULTS:
            continue
        known, meant = [*DEFAULTS, *others], _OTHER_NAMES.get(name)
        close = [meant] if meant in known else difflib.get_close_matches(name, known, 1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Its options are {', '.join(known)}."
        raise OptionError(f"{function} has no option {name!r}. {hint}")
    return Options.read(**given)


def _check_method(method: Any, learner: Any) -> None:
    _check_choice("method", method, METHODS)
    if learner is not None and method not in _LEARNING:
        raise OptionError(f"learner needs method='twin' or method='crossfit', got method={method!r}.")


def _check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        shown = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
        raise OptionError(f"{name} must be {shown}, got {value!r}.")


def _check_fraction(name: str, value: Any, remedy: str) -> None:
    if not _is_number(value) or not 0 < value < 1:
        raise OptionError(f"{name} must lie in (0, 1), got {value!r}. {remedy}")


def _check_counts(repeats: Any, n_jobs: Any) -> None:
    if not _is_integer(repeats) or repeats < 1:
        raise OptionError(f"repeats must be an integer of at least 1, got {repeats!r}.")
    if n_jobs is not None and (not _is_integer(n_jobs) or (n_jobs != -1 and n_jobs < 1)):
        raise OptionError(
            f"n_jobs, the number of threads, must be -1 or at least 1, got {n_jobs!r}. Use -1 for all "
            "cores."
        )


def _is_integer(value: Any) -> bool:
    return _is_number(value) and float(value).is_integer()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
