"""Results read back from JSON: the same text and page, also of earlier versions; no file is trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import epiloss
from epiloss.analysis.gate import baseline_checks
from epiloss.errors import DataError, OptionError
from epiloss.simulate import Sigmoid

OLD = Path(__file__).parent / "saved" / "audit_schema_1.json"
STEP = Sigmoid(perturbation="step")


def rows(seed: int, n: int = 1_500, problem: Sigmoid = STEP) -> tuple[Any, Any, dict[str, Any]]:
    sample = problem.sample(n, random_state=seed)
    return sample.y, sample.scores, {"a": sample.X[:, 0], "b": sample.X[:, 1]}


@pytest.fixture(scope="module")
def audit() -> epiloss.Audit:
    y, p, X = rows(0)
    return epiloss.audit(y, p, X, subgroups={"left": X["a"] > 0}, recalibrate="isotonic")


def saved(result: Any, folder: Path) -> Path:
    path = folder / "result.json"
    result.to_json(path)
    return path


def test_an_audit_prints_as_it_did_and_has_the_same_json(audit: epiloss.Audit, tmp_path: Path) -> None:
    again = epiloss.load_result(saved(audit, tmp_path))
    assert str(again) == str(audit)
    assert again.to_dict() == audit.to_dict()
    assert str(again.metrics) == str(audit.metrics)
    assert str(again.segments) == str(audit.segments)
    assert again.verdict == audit.verdict
    assert again.details is None


def test_the_page_of_a_saved_audit_tells_the_same(audit: epiloss.Audit, tmp_path: Path) -> None:
    page = epiloss.load_result(saved(audit, tmp_path)).to_html(model="churn <3>")
    assert page.startswith("<!DOCTYPE html>")
    assert "churn &lt;3&gt;" in page
    assert audit.segments[0].description.replace("<", "&lt;").replace(">", "&gt;") in page
    assert audit.verdict.reason.replace("<", "&lt;").replace(">", "&gt;") in page


def results() -> dict[str, Any]:
    y, p, X = rows(0)
    one = epiloss.audit(y, p, X)
    return {
        "comparison": epiloss.compare(y, {"given": p, "half": 0.5 * p}, X, method="partition"),
        "drift": epiloss.drift((y, p, X), rows(1)),
        "regret": epiloss.regret(one, cost_fn=3),
    }


def test_other_results_are_read_back_too(tmp_path: Path) -> None:
    for result in results().values():
        again = epiloss.load_result(saved(result, tmp_path))
        assert type(again) is type(result)
        assert str(again) == str(result)
        assert again.to_dict() == result.to_dict()
        assert again.to_html()[:15] == "<!DOCTYPE html>"


def test_an_audit_of_an_earlier_schema_is_read_shown_and_compared(tmp_path: Path) -> None:
    old = epiloss.load_result(OLD)
    assert json.loads(OLD.read_text())["schema"] == 1
    assert old.to_dict()["schema"] == 2
    assert "grouping loss, at least" in str(old)
    assert old.to_html()[:15] == "<!DOCTYPE html>"
    assert old.metrics.notes
    y, p, X = rows(2)
    new = epiloss.audit(y, p, X, n_bins=2, method="partition")
    assert [one.loss for one in baseline_checks(new, old)] == ["grouping", "calibration", "score"]
    assert [one.loss for one in baseline_checks(epiloss.audit(y, p, X), old)] == ["calibration", "score"]


BROKEN = {
    "no json": "schema: 2",
    "a list": "[1, 2]",
    "no schema": '{"score": 1}',
    "of the future": '{"schema": 99}',
    "of nothing": '{"schema": 2}',
    "half of it": '{"schema": 2, "score": {}, "regions": {}, "level_sets": {}}',
    "no numbers": '{"schema": 2, "cost_fp": "much", "cost_fn": NaN, "curve": []}',
    "deep": '{"schema": 2, "a": ' + "[" * 100_000,
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_saved_result_is_told_in_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"broken\.json"):
        epiloss.load_result(path)
    with pytest.raises(DataError, match="No such file"):
        epiloss.load_result(tmp_path / "none.json")


def test_texts_of_a_saved_audit_are_escaped(audit: epiloss.Audit, tmp_path: Path) -> None:
    path = saved(audit, tmp_path)
    evil = path.read_text().replace("task 'binary' chosen", "<script>alert(1)</script>")
    path.write_text(evil)
    page = epiloss.load_result(path).to_html(title="</title><script>alert(2)</script>")
    assert "<script>alert" not in page


# a gate against the last audit


def test_a_loss_that_rose_fails_and_one_that_did_not_passes() -> None:
    good = [epiloss.audit(*rows(k, 4_000, Sigmoid())) for k in range(2)]
    bad = epiloss.audit(*rows(2, 4_000))
    assert not any(one.failed for one in baseline_checks(good[1], good[0]))
    failed = [one for one in baseline_checks(bad, good[0]) if one.failed]
    assert [one.loss for one in failed] == ["grouping"]
    assert "the grouping loss is significantly larger than in the baseline: difference +0.0" in str(
        failed[0]
    )
    assert not any(one.failed for one in baseline_checks(bad, good[0], margin=0.2))
    assert not any(one.failed for one in baseline_checks(good[0], bad))


def test_without_a_change_the_gate_seldom_fails() -> None:
    """100 pairs of 300 rows: at most 2.5% of the gates fail, allowing three standard errors (7.2%)."""
    audits = [epiloss.audit(*rows(k, 300), method="partition", n_bins=3) for k in range(200)]
    pairs = zip(audits[::2], audits[1::2], strict=True)
    failed = [any(one.failed for one in baseline_checks(*pair)) for pair in pairs]
    assert sum(failed) <= 7


def test_audits_of_other_tasks_or_rules_are_no_baseline() -> None:
    y, p, X = rows(0)
    brier, log = (epiloss.audit(y, p, X, rule=rule, method="partition") for rule in ("brier", "log"))
    with pytest.raises(DataError, match="must have the rule of this audit, 'brier', got 'log'"):
        baseline_checks(brier, log)
    with pytest.raises(OptionError, match="margin must be a finite number of at least 0"):
        baseline_checks(brier, brier, margin=-1)
