"""Audits whose rows have several labels: the ledger is measured, not bounded."""

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
    """Refuse options that repeated labels cannot follow."""
    if options.reading.drop_missing:
        raise OptionError(
            "with repeated labels single ones may be missing as it is, so drop_missing has no part. "
            "Leave it out, and drop rows without a score first."
        )
    if not isinstance(options.rule, Brier):
        raise OptionError(
            "repeated labels measure the grouping loss of the Brier score, got rule "
            f"{options.rule.name!r}. Use rule='brier', or one label a row."
        )
    if options.recalibrate is not None:
        raise OptionError(
            "repeated labels measure the scores as given, got recalibrate. Recalibrate on other rows, "
            "and audit the new scores."
        )


def with_ratings(result: Audit, ratings: Ratings, problem: Problem, options: Options) -> Audit:
    """Return the audit of one drawn label a row with its ledger measured from all labels."""
    if len(ratings.count) != len(problem.scores):
        raise OptionError("repeated labels take no rows of weight 0. Leave these rows out.")
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
