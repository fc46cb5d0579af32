"""Heads, familiar numbers, subgroups, and pages of drift and repair: they say what results hold."""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import epiloss
from epiloss.errors import OptionError
from epiloss.partition import Tree
from epiloss.presentation.plot.style import BLUE, COLOURS, SKY, side_colours
from epiloss.presentation.report import audit_page, comparison_page, drift_page, repair_page
from epiloss.presentation.report.escaping import asset
from epiloss.simulate import Sigmoid
from report_pages import EVIL, Page, check_harmless

SAMPLE = Sigmoid(perturbation="step").sample(2_000)
SIDE = np.where(SAMPLE.X[:, 0] > SAMPLE.X[:, 1], "left", "right")
HALF = np.where(np.arange(2_000) % 2 == 0, EVIL[0], "odd")


@pytest.fixture(scope="module")
def audit() -> epiloss.Audit:
    groups = {"side": SIDE, EVIL[1]: HALF}
    return epiloss.audit(SAMPLE.y, SAMPLE.scores, SAMPLE.X, subgroups=groups)


@pytest.fixture(scope="module")
def repaired(audit: epiloss.Audit) -> Any:
    return audit.repair()


@pytest.fixture(scope="module")
def drifted() -> epiloss.Drift:
    before = Sigmoid(perturbation="step", grouping=0.2).sample(1_500, random_state=0)
    after = Sigmoid(perturbation="step", grouping=1.0).sample(1_500, random_state=1)
    return epiloss.drift((before.y, before.scores, before.X), (after.y, after.scores, after.X))


def pages_of(audit: epiloss.Audit, repaired: Any, drifted: epiloss.Drift) -> dict[str, Any]:
    models = {"one": SAMPLE.scores, "other": SAMPLE.q}
    compared = epiloss.compare(SAMPLE.y, models, method="partition")
    return {"audit": audit, "repair": repaired, "drift": drifted, "comparison": compared}


def test_every_page_has_title_model_data_rows_and_date(
    audit: epiloss.Audit, repaired: Any, drifted: epiloss.Drift
) -> None:
    for name, result in pages_of(audit, repaired, drifted).items():
        about = {"title": EVIL[0], "model": EVIL[1], "data": "jan.csv", "date": "2026-03-01"}
        found = check_harmless(result.to_html(**about, command="epiloss audit jan.csv"))
        for text in about.values():
            assert text in found.texts, (name, text)
        assert "epiloss audit jan.csv" in found.text, name
        assert re.search(r"Rows [\d,]+", found.text), name
        assert "import epiloss" not in found.text
        plain = Page(result.to_html())
        assert datetime.date.today().isoformat() in plain.texts
        assert "Model" not in plain.texts
        assert "import epiloss" in plain.text
        assert "Date" not in Page(result.to_html(date="")).texts


def test_a_page_refuses_options_that_it_does_not_have(audit: epiloss.Audit) -> None:
    with pytest.raises(OptionError, match=r"no option 'titel'.*title, model"):
        audit.to_html(titel="x")
    with pytest.raises(OptionError, match="title must be a string, got 3"):
        audit.to_html(title=3)  # type: ignore[arg-type]


def test_the_page_has_the_familiar_numbers(audit: epiloss.Audit) -> None:
    text = Page(audit_page(audit)).text
    metrics = audit.metrics
    assert len(metrics) > 10
    for one in metrics.values():
        assert one.title in text
        digits = 4 if abs(one.value) < 1 else 3
        assert f"{one.value:.{digits}f}" in text
        if one.floor is not None:
            assert f"{one.floor.value:.4f}" in text
    assert metrics.subject in text


def test_the_smallest_detectable_loss_is_beside_the_estimate(audit: epiloss.Audit) -> None:
    assert audit.smallest_detectable is not None
    told = f"smallest detectable {audit.smallest_detectable:.5f}"
    text = Page(audit_page(audit)).text
    assert f"{audit.grouping_loss:.5f} {told}" in text
    assert f"of {audit.smallest_detectable:.5f} with 80% power" in text


def test_an_audit_without_its_rows_has_no_familiar_numbers(audit: epiloss.Audit) -> None:
    from dataclasses import replace

    text = audit_page(replace(audit, details=None))
    assert 'id="metrics"' not in text
    assert 'id="ledger"' in text


def test_subgroups_come_with_their_criterion_and_the_losses_inside(audit: epiloss.Audit) -> None:
    found = check_harmless(audit_page(audit))
    for word in ("sufficiency", "demographic parity", "equalized odds", "multicalibration"):
        assert word in found.text
    for table in audit.subgroup_gaps.values():
        for row in table.rows():
            assert str(row["subgroup"]) in " ".join(found.texts)
            for loss in ("calibration_loss", "grouping_loss"):
                assert f"{row[loss]:z.5f}" in found.text
                assert f"[{row[f'{loss}_low']:z.5f}, {row[f'{loss}_high']:z.5f}]" in found.text


def test_intersections_are_listed_on_request(audit: epiloss.Audit) -> None:
    columns = ("side", EVIL[1])
    names = audit.subgroup_intersections(*columns)["subgroup"].tolist()
    plain = Page(audit_page(audit))
    found = check_harmless(audit_page(audit, intersections=[columns]))
    assert len(names) == 4
    texts, before = " ".join(found.texts), " ".join(plain.texts)
    assert all(name in texts and name not in before for name in names)


def test_the_page_says_what_decisions_cost(audit: epiloss.Audit) -> None:
    found = check_harmless(audit_page(audit, costs=[(1, 4), (5, 2)]))
    for pair in ((1, 4), (5, 2)):
        same = epiloss.regret(audit, cost_fp=pair[0], cost_fn=pair[1], thresholds=[0.5])
        assert f"{1_000 * same.cost.value:.0f} {1_000 * same.remaining.value:.0f} +" in found.text
        assert f"{same.threshold:.2g}" in found.text
    assert "a false negative costs 4 times as much" in found.text
    assert "a false positive costs 5, a false negative 2" in found.text
    assert "by models that have not seen the row" in found.text
    assert "epiloss.regret(result" in found.text
    assert "--cost-fp" in Page(audit_page(audit, command="epiloss audit jan.csv")).text


def test_the_page_has_usual_costs_if_none_are_given(audit: epiloss.Audit) -> None:
    text = Page(audit_page(audit)).text
    assert "equal costs" in text
    assert "rows acted on" in text
    assert "drawn at random" not in text


def test_a_page_without_a_single_score_has_no_costs() -> None:
    scores = np.random.default_rng(0).dirichlet(np.ones(3), 300)
    several = epiloss.audit(scores.argmax(axis=1), scores, task="classwise")
    assert 'id="cost"' not in audit_page(several)
    top = epiloss.audit(scores.argmax(axis=1), scores, task="top-label")
    text = Page(audit_page(top)).text
    assert "the predicted class is trusted" in text
    assert "scores can only be recalibrated" in text


def test_the_drift_page_says_what_changed(drifted: epiloss.Drift) -> None:
    text = drift_page(drifted)
    found = check_harmless(text)
    change = drifted.difference["grouping_loss"]
    assert change.pvalue is not None
    assert change.pvalue < 0.05
    assert f"The grouping loss rose by {change.value:.5f} (95% interval" in found.text
    assert "No significant change was found in the" in found.text
    for name, one in drifted.difference.items():
        for estimate in (getattr(drifted.reference, name), getattr(drifted.current, name)):
            assert f"{estimate.value:z.5f}" in found.text
        assert f"{one.value:+z.5f}" in found.text
    headings = re.findall(r'<h2 id="(\w+)"', text)
    assert headings[0] == "found"
    assert headings[-1] == "method"


def test_the_page_says_that_a_repair_changes_nothing() -> None:
    sample = Sigmoid(grouping=0.0).sample(600)
    result = epiloss.audit(sample.y, sample.scores, sample.X).repair()
    assert result.keeps
    text = Page(repair_page(result)).text
    assert result.note in text
    assert "No significant change was found" not in text


def test_the_repair_page_shows_both_audits_and_adds_up(repaired: Any) -> None:
    text = repair_page(repaired)
    found = check_harmless(text)
    assert text.count('class="diagram"') == 2
    assert "After the repair" in found.text
    for name in ("score", "calibration_loss", "grouping_loss", "remainder"):
        for one in (repaired.before, repaired.after):
            assert f"{getattr(one, name).value:z.5f}" in found.text
    change = repaired.differences["score"].value
    assert f"The score fell by {abs(change):.5f}" in found.text
    assert re.findall(r'<h2 id="(\w+)"', text) == ["found", "losses", "diagram", "segments", "method"]


def test_the_parts_of_a_repair_add_up_to_the_change_of_the_score(repaired: Any) -> None:
    changes = {name: one.value for name, one in repaired.differences.items()}
    score = changes.pop("score")
    assert set(changes) == {"calibration_loss", "grouping_loss", "remainder"}
    assert sum(changes.values()) == pytest.approx(score, abs=1e-12)
    stderr = repaired.differences["remainder"].stderr
    assert 0 < stderr < repaired.before.remainder.stderr
    assert "\n+ remainder " in str(repaired)


def test_an_index_without_a_name_is_not_spoken_of(audit: epiloss.Audit) -> None:
    from dataclasses import replace

    from epiloss.errors import Remark

    remarks = (Remark("index", "'__index_level_0__' is no feature."), Remark("other", "else"))
    text = audit_page(replace(audit, remarks=remarks))
    assert "__index_level_0__" not in text
    assert "else" in Page(text).texts


def test_pages_have_the_colours_of_the_plots() -> None:
    style = asset("style.css")
    found = dict(re.findall(r"--(\w+): light-dark\((#\w+), #\w+\);", style))
    dark = dict(re.findall(r"--(\w+): light-dark\(#\w+, (#\w+)\);", style))
    for ground, shown, grouping in (("white", found, BLUE), ("black", dark, SKY)):
        axes = Figure().subplots()
        axes.set_facecolor(ground)
        assert (shown["under"], shown["over"]) == side_colours(axes)
        assert shown["calibration"] == COLOURS["calibration_loss"].lower()
        assert shown["grouping"] == grouping.lower()


def test_key_metrics_come_before_the_ledger_and_all_metrics_after_the_findings(
    audit: epiloss.Audit,
) -> None:
    text = audit_page(audit)
    places = [text.index(f'id="{name}"') for name in ("verdict", "ledger", "segments", "diagram")]
    places += [text.index(f'id="{name}"') for name in ("subgroups", "curve", "metrics", "method")]
    assert places == sorted(places)
    key = Page(text[text.index('class="key"') : text.index('id="ledger"')]).text
    for name in ("accuracy", "auc", "brier_skill_score", "ece_equal_width"):
        one = audit.metrics[name]
        assert f"{one.title} {one.value:.4f}" in key


def test_the_title_of_a_verdict_names_the_larger_loss_first() -> None:
    scores = np.clip(SAMPLE.scores * 0.9, 0, 1)
    for given, title in (
        (scores, "Repair and recalibrate"),
        (SAMPLE.scores**3, "Recalibrate and repair"),
    ):
        result = epiloss.audit(SAMPLE.y, given, SAMPLE.X)
        assert result.verdict.kind == "recalibrate-and-repair"
        assert result.verdict.sentence.startswith(f"{title}: ")
        assert f"{title}</h2>" in audit_page(result)


def test_rows_with_equal_features_are_a_check_or_a_note() -> None:
    generator = np.random.default_rng(0)
    x = generator.integers(0, 10, (4_000, 2)).astype(float)
    q = 0.2 + 0.05 * x[:, 0] + 0.2 * (x[:, 1] % 2)
    y, scores = (generator.random(4_000) < q).astype(int), 0.2 + 0.05 * x[:, 0]
    result = epiloss.audit(y, scores, x)
    assert result.equal_rows is not None
    assert result.equal_rows.agrees
    assert (
        "Rows with equal features and scores (100% of the rows) agree" in Page(audit_page(result)).text
    )
    blind = epiloss.audit(y, scores, x, method="partition", partition=Tree(1_000))
    assert blind.equal_rows is not None
    assert not blind.equal_rows.agrees
    assert str(blind.equal_rows) in Page(audit_page(blind)).text


def test_a_comparison_lists_the_segments_of_each_model() -> None:
    X = {"side": SIDE, "other": SAMPLE.X[:, 0]}
    result = epiloss.compare(SAMPLE.y, {"scores": SAMPLE.scores, "truth": SAMPLE.q}, X)
    found = check_harmless(comparison_page(result))
    assert "By the Brier score, scores is worse than truth by" in found.text
    segments = result.audits["scores"].segments
    assert len(segments)
    assert all(one.description in found.text for one in segments)
