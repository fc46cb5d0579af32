"""Many networks: what is counted of them, the images that they judge, and the pictures."""

from __future__ import annotations

import doctest
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epiloss
import vision_many
import vision_many_claims as claims
import vision_many_pictures
from epiloss import Estimate
from epiloss.simulate import Sigmoid
from protocol import Line
from study_verdicts import HOLDS, IN_PART, NOT
from vision_data import Labelled
from vision_parts import CLEAN, EACH, LARGE, MERGED, QUICK, SNOW, Parts

WIDTH = 0.01  # of half an interval


def estimate(value: float) -> Estimate:
    return Estimate(value, WIDTH / 2, value - WIDTH, value + WIDTH)


def line(name: str, accuracy: float, twin: float, trees: float | None = None) -> Line:
    gl, cl = estimate(twin if trees is None else trees), estimate(0.05)
    return Line(name, 900, accuracy, cl, estimate(0), gl, gl, estimate(twin), estimate(twin), 1.0)


def lines(clean: float, merged: float, snow: float, n: int = 10) -> dict[str, list[Line]]:
    parts = {CLEAN: clean, MERGED: merged, SNOW: snow}
    return {
        part: [line(f"network {k}", 0.3 + 0.05 * k, value + 1e-4 * k) for k in range(n)]
        for part, value in parts.items()
    }


def test_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(vision_many_pictures).failed == 0


@pytest.mark.parametrize(("snow", "verdict"), [(0.1, HOLDS), (0.06, HOLDS), (0.04, NOT)])
def test_more_is_counted_by_twins_with_and_without_intervals(snow: float, verdict: str) -> None:
    found = claims.more(lines(0.0, 0.05, snow), MERGED, SNOW, "more")
    assert found.verdict == verdict
    surely = 10 if snow == 0.1 else 0
    assert f"beyond the intervals for {surely} (smaller for 0)" in found.count


def test_clean_images_are_no_shift_only_to_those_that_learned_from_them() -> None:
    every = lines(0.0, 0.05, 0.05, n=3)
    for part, value in ((CLEAN, 0.2), (MERGED, 0.1), (SNOW, 0.3)):
        every[part].append(line("x, zero-shot", 0.2, value))
    found = claims.more(every, CLEAN, MERGED, "more")
    assert "for 3 of 3 networks" in found.count
    assert found.count.endswith("for 0 of 1 zero-shot networks, to which clean images are a shift")
    assert found.verdict == HOLDS
    assert "for 1 of 4 networks" in claims.more(every, MERGED, SNOW, "more").count


def test_networks_of_like_accuracy_differ_only_if_their_intervals_lie_apart() -> None:
    near = [line("a", 0.50, 0.02), line("b", 0.51, 0.03), line("c", 0.9, 0.5)]
    assert claims.comparable(near).verdict == NOT
    apart = claims.comparable([line("d", 0.52, 0.06), *near])
    assert apart.verdict == HOLDS
    assert apart.count.endswith("widest: d 0.0600 at 52.0% and a 0.0200 at 50.0%")


def test_the_order_by_accuracy_is_that_of_the_twins() -> None:
    rising = [line(str(k), 0.1 * k, 0.01 * k, -0.01 * k) for k in range(1, 8)]
    assert claims.more_accurate(rising, SNOW).verdict == HOLDS
    falling = [replace(one, twin=one.gl) for one in rising]
    assert claims.more_accurate(falling, SNOW).verdict == NOT


def test_a_substantial_loss_is_above_what_the_paper_has_without_shift() -> None:
    clear, small = line("a", 0.5, 0.02), line("b", 0.5, 0.012)  # from 0.010 and from 0.002 on
    assert claims.substantial([clear]).verdict == HOLDS
    found = claims.substantial([clear, small])
    assert found.verdict == IN_PART
    assert "significantly above 0.003 for 1 of 2 networks" in found.count


def test_the_order_by_accuracy_is_also_that_without_zero_shot_networks() -> None:
    rising = [line(str(k), 0.1 * k, 0.01 * k) for k in range(1, 8)]
    assert "zero-shot" not in claims.more_accurate(rising, SNOW).count
    found = claims.more_accurate([*rising, line("x, zero-shot", 0.01, 0.9)], SNOW)
    assert found.count.endswith("; without zero-shot networks 1.00, p < 0.001 by twins")
    assert found.verdict == NOT


def test_without_shift_trees_and_twins_must_agree_that_there_is_nothing() -> None:
    quiet = [line(str(k), 0.5, 0.0) for k in range(5)]
    assert claims.next_to_none(quiet).verdict == HOLDS
    seen_by_twins = [line(str(k), 0.5, 0.05, trees=0.0) for k in range(5)]
    assert claims.next_to_none(seen_by_twins).verdict == IN_PART
    zero_shot = line("x, zero-shot", 0.2, 0.9)  # never saw such images
    assert claims.next_to_none([*quiet, zero_shot]).verdict == HOLDS


def test_the_mixture_is_compared_with_each_corruption() -> None:
    values = {CLEAN: 0.0, MERGED: 0.1, "fog": 0.2, "contrast": 0.01}
    found = claims.mixture({part: {"a": estimate(value)} for part, value in values.items()})
    assert "for 1 of 2 corruptions, most for fog" in found.count


def known(groups: float, both: float) -> claims.Known:
    return claims.Known("a", estimate(groups), estimate(both), estimate(both))


@pytest.mark.parametrize(("groups", "verdict"), [(0.09, HOLDS), (0.02, NOT)])
def test_known_groups_explain_what_is_found_if_they_tell_half_of_it(groups: float, verdict: str) -> None:
    there, explained = claims.group_claims([known(groups, 0.1)] * 3)
    assert there.verdict == HOLDS
    assert explained.verdict == verdict
    assert claims.group_claims([known(0.0, 0.1)])[0].verdict == NOT


def test_groups_that_explain_everything_are_found_to() -> None:
    # 3,000 rows: the rate depends on the score and the group alone, of which the feature tells nothing
    generator = np.random.default_rng(0)
    groups = generator.choice(np.array(["fog", "snow"], object), 3_000)
    top = generator.uniform(0.4, 0.8, 3_000)
    hit = generator.random(3_000) < top + np.where(groups == "fog", 0.15, -0.15)
    noise = generator.normal(size=(3_000, 3))
    found = vision_many.by_known_groups("a", hit, top, noise, groups, seed=0)
    truth = 2 * 0.15**2
    assert abs(found.groups.value - truth) < 4 * (found.groups.stderr or 0)
    assert found.both.value < truth + 4 * (found.both.stderr or 0)
    assert found.both.value > truth / 2
    assert found.features.value < truth / 4


def test_parts_start_with_the_same_images_and_are_made_once(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (1_300, 32, 32, 3)).astype(np.uint8)
    parts = Parts(Labelled(images, np.arange(1_300) % 10), tmp_path, 0, quick=True)
    made = parts.images("contrast")
    assert made.shape == (QUICK, 32, 32, 3)
    assert made.std() < 0.3 * images.std()
    path = next(tmp_path.glob("images-contrast-*.npz"))
    assert float(path.with_name(f"{path.name}.seconds").read_text()) >= 0
    np.testing.assert_array_equal(parts.images("contrast"), made)
    assert len(parts.groups) == QUICK
    whole = Parts(parts.test, tmp_path, 0)
    assert len(whole.others) == 18
    assert [whole.size(part) for part in (SNOW, "fog")] == [LARGE, EACH]


def test_all_pictures_are_drawn_for_networks_of_any_name(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="draws")
    import matplotlib

    matplotlib.use("Agg")
    every = lines(0.0, 0.05, 0.08, n=6)
    sample = Sigmoid().sample(400)
    audit = epiloss.audit(sample.y, sample.scores, sample.X)
    single: dict[str, Any] = {
        part: {f"network {k}": estimate(0.02 * k) for k in range(4)}
        for part in (CLEAN, MERGED, SNOW, "glass_blur")
    }
    drawn = [
        vision_many_pictures.losses(every, tmp_path / "losses.png"),
        vision_many_pictures.accuracies(every, tmp_path / "accuracy.png"),
        vision_many_pictures.shifts(every, tmp_path / "shifts.png"),
        vision_many_pictures.recalibration(every, tmp_path / "recalibration.png"),
        vision_many_pictures.corruptions(single, list(single[SNOW]), tmp_path / "corruptions.png"),
        vision_many_pictures.every_grouping(
            [(one, audit) for one in every[MERGED]], tmp_path / "diagrams.png"
        ),
        vision_many_pictures.known([known(0.05, 0.1)] * 3, tmp_path / "known.png"),
    ]
    assert all(path.stat().st_size > 10_000 for path in drawn)
