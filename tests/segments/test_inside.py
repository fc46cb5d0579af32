"""Losses inside subgroups: those of an audit of these rows alone, estimated when asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot

import epiloss
from epiloss.errors import OptionError
from epiloss.presentation.plot import GapsDisplay
from epiloss.segments import inside
from epiloss.simulate import Sigmoid

SAMPLE = Sigmoid(perturbation="step").sample(3_000)
RNG = np.random.default_rng(0)
SEX = RNG.choice(np.array(["f", "m"]), 3_000)
AGE = np.where(RNG.random(3_000) < 0.03, "old", "young")  # of the old there are too few to tell


def audited(**options: Any) -> epiloss.Audit:
    groups = {"sex": SEX, "age": AGE}
    return epiloss.audit(SAMPLE.y, SAMPLE.scores, SAMPLE.X, subgroups=groups, **options)


@pytest.mark.parametrize("method", ["twin", "crossfit", "partition"])
def test_losses_inside_a_value_are_those_of_an_audit_of_its_rows(method: str) -> None:
    table = audited(method=method).subgroup_gaps["sex"]
    for row in table.rows():
        here = np.equal(SEX, row["subgroup"])
        alone = epiloss.audit(SAMPLE.y[here], SAMPLE.scores[here], SAMPLE.X[here], method=method)
        for loss in ("calibration_loss", "grouping_loss"):
            one = getattr(alone, loss)
            assert row[loss] == pytest.approx(one.value, abs=1e-12)
            # an audit counts the noise of level sets in each fold of its regions, here there is one
            ends = [row[f"{loss}{end}"] for end in ("_low", "_high")]
            np.testing.assert_allclose(ends, [one.low, one.high], atol=2e-5)


def test_the_losses_inside_add_up_to_those_of_all_rows() -> None:
    """A score that is right on average and wrong in both groups; the mean of 3 draws of 20,000 rows."""
    n, inside, totals = 20_000, [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        scores, group = rng.uniform(0.2, 0.8, n), rng.integers(0, 2, n)
        x = rng.integers(0, 2, n).astype(float)
        labels = (rng.random(n) < scores + 0.1 * (2 * group - 1) + 0.08 * (2 * x - 1)).astype(int)
        result = epiloss.audit(labels, scores, {"x": x, "group": group}, subgroups={"group": group})
        table = result.subgroup_gaps["group"]
        total = result.calibration_loss.value + result.grouping_loss.value
        added = table["share"] @ (table["calibration_loss"] + table["grouping_loss"])
        assert added == pytest.approx(total, rel=0.1)
        np.testing.assert_allclose(table["gap"], [-0.1, 0.1], atol=0.015)
        inside.append([table["calibration_loss"], table["grouping_loss"]])
        totals.append(total)
    assert np.mean(totals) == pytest.approx(0.1**2 + 0.08**2, rel=0.1)
    calibration, grouping = np.mean(inside, axis=0)
    np.testing.assert_allclose(calibration, 0.1**2, rtol=0.15)
    np.testing.assert_allclose(grouping, 0.08**2, rtol=0.15)


def test_an_empty_string_is_a_value_in_quotes() -> None:
    city = np.where(np.arange(len(SAMPLE.y)) % 4 == 0, "", "Rome").astype(object)
    result = epiloss.audit(SAMPLE.y, SAMPLE.scores, subgroups={"city": city})
    (line,) = [line for line in str(result).splitlines() if line.endswith("''")]
    assert f"{(city == '').sum():,}" in line
    assert "&#39;&#39;" in result.to_html()
    labels = GapsDisplay.from_audit(result, subgroups=["city"]).plot().ax_.get_yticklabels()
    assert any(label.get_text().startswith("''") for label in labels)
    pyplot.close("all")


def test_a_value_with_few_rows_has_a_gap_and_no_losses() -> None:
    table = audited().subgroup_gaps["age"]
    assert table["subgroup"].tolist() == ["old", "young"]
    assert np.isnan(table["calibration_loss"]).tolist() == [True, False]
    assert np.isfinite(table["gap"]).all()


def test_without_features_only_the_calibration_loss_inside_is_known() -> None:
    result = epiloss.audit(SAMPLE.y, SAMPLE.scores, subgroups={"sex": SEX})
    table = result.subgroup_gaps["sex"]
    assert np.isfinite(table["calibration_loss"]).all()
    assert np.isnan(table["grouping_loss"]).all()


def test_losses_inside_are_estimated_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    known = inside.inner_losses

    def counted(*arguments: Any) -> Any:
        asked.append(1)
        return known(*arguments)

    monkeypatch.setattr(inside, "inner_losses", counted)
    result = audited()
    assert result.subgroup_gaps["sex"]["gap"].shape == (2,)
    assert str(result.verdict)
    assert not asked
    assert np.isfinite(result.subgroup_gaps["sex"]["grouping_loss"]).all()
    assert np.isfinite(result.subgroup_gaps["sex"]["calibration_loss"]).all()
    assert len(asked) == 2


def test_the_largest_values_alone_have_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "MOST_INSIDE", 1)
    table = audited().subgroup_gaps["sex"]
    known = np.isfinite(table["calibration_loss"])
    assert known.sum() == 1
    assert table["n"][known][0] == table["n"].max()


def test_ledger_and_json_have_the_losses_inside() -> None:
    result = audited()
    text = str(result)
    assert "calibration within  grouping within  subgroup" in text
    loss = result.subgroup_gaps["sex"]["grouping_loss"][0]
    assert f"{loss:.5f}" in text
    saved = result.to_dict()["subgroup_gaps"]
    assert saved["sex"]["grouping_loss"][0] == loss
    assert saved["age"]["grouping_loss"][0] is None


def test_intersections_have_a_row_for_each_combination() -> None:
    result = audited()
    table = result.subgroup_intersections("sex", "age")
    assert table["subgroup"].tolist() == [f"sex={a}, age={b}" for a in "fm" for b in ("old", "young")]
    both = epiloss.audit(
        SAMPLE.y, SAMPLE.scores, subgroups=[f"{a}, {b}" for a, b in zip(SEX, AGE, strict=True)]
    )
    np.testing.assert_allclose(table["gap"], both.subgroup_gaps["subgroup"]["gap"])
    np.testing.assert_allclose(table["n"].sum(), 3_000)
    assert (table["pvalue_adjusted"] >= table["pvalue"]).all()
    everything = result.subgroup_intersections()
    assert everything["subgroup"].tolist() == table["subgroup"].tolist()
    alone = result.subgroup_intersections("sex")
    np.testing.assert_array_equal(alone["gap"], result.subgroup_gaps["sex"]["gap"])


def test_intersections_of_unknown_columns_are_refused() -> None:
    with pytest.raises(OptionError, match=r"got 'race'\. Choose from 'sex', 'age'"):
        audited().subgroup_intersections("sex", "race")
    plain = epiloss.audit(SAMPLE.y, SAMPLE.scores, SAMPLE.X)
    with pytest.raises(OptionError, match=r"got no column.*subgroups="):
        plain.subgroup_intersections()
