"""Audits of rows with several labels each: the grouping loss is measured instead of bounded."""

from __future__ import annotations

from dataclasses import replace

from epiloss._random import stream
from epiloss.auditing.result import Audit
from epiloss.errors import OptionError
from epiloss.estimation.options import Options
from epiloss.estimation.repeated_labels import Ratings, measured_losses
from epiloss.input.problem import Problem
from epiloss.scoring import Brier


def check_for_ratings(options: Options) -> None:
    """Refuse options that are not available for repeated labels."""
    if options.reading.drop_missing:
        raise OptionError(
            "drop_missing is not available for repeated labels, some of which may be missing. Leave "
            "it out, and drop rows without a score first."
        )
    if not isinstance(options.rule, Brier):
        raise OptionError(
            f"repeated labels need rule='brier', got {options.rule.name!r}. Use it, or pass one label "
            "per row."
        )
    if options.recalibrate is not None:
        raise OptionError(
            "recalibrate is not available for repeated labels. Recalibrate on other rows, and audit "
            "the new scores."
        )


def with_ratings(result: Audit, ratings: Ratings, problem: Problem, options: Options) -> Audit:
    """Return the audit of one drawn label per row with its ledger replaced by that of all labels."""
    if len(ratings.count) != len(problem.scores):
        raise OptionError("weights must be above 0 for repeated labels, got 0. Leave such rows out.")
    generator = stream(options.seed, "ratings")
    found = measured_losses(ratings, problem, options.confidence_level, generator)
    return replace(
        result,
        score=found.estimates["score"],
        calibration_loss=found.estimates["calibration_loss"],
        grouping_loss=found.estimates["grouping_loss"],
        remainder=found.estimates["remainder"],
        irreducible_loss=found.estimates["irreducible_loss"],
        method="repeated labels",
        n_evaluated=found.n_rows,
        remarks=tuple(remark for remark in result.remarks if remark.code != "no-features"),
        influence={
            name: found.influence[name].by_cluster(problem.clusters) for name in result.influence
        },
    )
