"""``epiloss audit`` and ``epiloss demo``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from epiloss._progress import stage, working
from epiloss.cli.command import Command
from epiloss.cli.finish import Check, Output, given_options, plain_checks, report_gate
from epiloss.cli.logs import log_options, opened_or_log
from epiloss.cli.options import (
    column_options,
    cost_options,
    estimation_options,
    file_options,
    gate_options,
    metrics_option,
    output_options,
    repair_options,
    sql_option,
)
from epiloss.cli.output import check_output, named_files, repair_scores

if TYPE_CHECKING:
    from epiloss.auditing.result import Audit

EXAMPLES = (
    "epiloss audit predictions.parquet --label y --score p",
    "epiloss audit predictions.csv --label y --score p --subgroups hospital --report report.html",
    "epiloss audit 'logs/*.parquet' --label y --score 'p*' --jobs -1",
    "epiloss audit scores.db --sql 'SELECT * FROM scored' --label y --score p",
    "epiloss audit predictions.csv --label y --score p --repair better.csv --save-repair repair.json",
    "epiloss audit samples_arc_easy_2025-01-31.jsonl",
    "epiloss audit predictions.csv --label y --score p --fail-above 0.005 --baseline last.json",
)


@click.command(
    cls=Command, examples=EXAMPLES, short_help="Estimate the losses of scores, and find where they are."
)
@click.argument("files", nargs=-1, required=True)
@column_options(required=False)
@estimation_options
@log_options
@sql_option()
@file_options
@output_options
@metrics_option
@repair_options
@cost_options(" in the report", "a few usual costs")
@gate_options
def audit(files: tuple[str, ...], scores: tuple[str, ...], **options: Any) -> None:
    """Decompose the score of predictions into calibration loss, grouping loss and remainder.

    FILES are Parquet, CSV, JSON lines, Arrow or NPZ files, folders (also Delta and Iceberg tables),
    patterns, or - for standard input. Logs of lm-evaluation-harness and Inspect need neither --label nor
    --score. Tables are read in passes, so they may be larger than memory.
    """
    from epiloss.streaming.run import audit_table

    check_output(options, named_files(files))
    with working("epiloss audit"):
        stage(f"reading {files[0]}")
        source, names = opened_or_log(files, scores, options)
        score = list(scores) and names
        _run(
            options,
            lambda given: audit_table(source, score=score or None, **given),
            names=tuple(names),
            files=files,
            source=source,
        )


@click.command(
    cls=Command,
    examples=("epiloss demo", "epiloss demo --report demo.html"),
    short_help="Audit a bundled model, as a first example.",
)
@estimation_options
@output_options
@metrics_option
@repair_options
@cost_options(" in the report", "a few usual costs")
@gate_options
def demo(**options: Any) -> None:
    """Audit a logistic regression that predicts incomes in bundled census data."""
    from epiloss.auditing.run import audit as run_audit
    from epiloss.datasets import load_census_income

    check_output(options)
    data = load_census_income()
    options["recalibrate"] = options["recalibrate"] or "isotonic"
    click.echo(
        f"A logistic regression predicted who of {len(data.y):,} unseen people earns over $50,000\n"
        "(Census-Income, U.S. Current Population Survey 1994-95). How wrong are its probabilities?\n",
        err=True,
    )
    with working("epiloss demo"):
        _run(options, lambda given: run_audit(data.y, data.scores, data.X, **given))


def _run(
    options: dict[str, Any],
    run_audit: Callable[[dict[str, Any]], Audit],
    *,
    names: tuple[str, ...] = ("score",),
    files: tuple[str, ...] = (),
    source: Any = None,
) -> None:
    costs = _costs(options)
    output = Output.take(options, files, costs)
    repair = {name: options.pop(name) for name in ("repair", "save_repair", "repair_method")}
    with_metrics = options.pop("metrics")
    gate = _gate(options)
    result = run_audit(given_options(options))
    output.save(result)
    wanted = repair["repair"] or repair["save_repair"]
    repaired = repair_scores(result, repair, names, source) if wanted else None
    checks = gate(result)
    if with_metrics:
        stage("computing metrics")
    metrics = result.metrics if with_metrics else None
    plain = None if repaired is None or not output.as_json else repaired.to_dict()
    output.show(result, metrics, repaired, repair=plain, gate=plain_checks(checks))
    report_gate(checks)


def _costs(options: dict[str, Any]) -> dict[str, Any]:
    """Return the section of the report that shows the costs given, if any."""
    given = [options.pop(name) for name in ("cost_fp", "cost_fn")]
    if given == [None, None]:
        return {}
    if options["report"] is None:
        raise click.UsageError(
            "--cost-fp and --cost-fn need --report, which shows the cost of decisions. Add it, or run "
            "epiloss regret."
        )
    return {"costs": [tuple(1.0 if one is None else one for one in given)]}


def _gate(options: dict[str, Any]) -> Callable[[Audit], list[Check]]:
    """Return a function that checks an audit; limits and baseline are read before any work."""
    from epiloss.analysis.gate import baseline_checks, checks, read_limits
    from epiloss.analysis.saved import load_audit

    limits = read_limits(options.pop("fail_above"))
    path, margin = options.pop("baseline"), options.pop("margin")
    if path is None and margin is not None:
        raise click.UsageError(
            "--margin needs --baseline, the audit to compare with. Add it, or leave out --margin."
        )
    baseline = None if path is None else load_audit(path)

    def gate(result: Audit) -> list[Check]:
        found: list[Check] = list(checks(result, limits))
        if baseline is None:
            return found
        against = baseline_checks(result, baseline, margin or 0.0)
        if all(one.loss != "grouping" for one in against):
            click.echo(
                "note: the grouping loss is not compared with the baseline, which used method "
                f"{baseline.method!r} instead of {result.method!r}.",
                err=True,
            )
        return [*found, *against]

    return gate
