"""Heterogeneity is how far a group is from its level sets, by hand too, and its interval holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import colors, pyplot

from epiloss import Audit, OptionError, audit
from epiloss.presentation.plot.groups import HeterogeneityDisplay, heterogeneity
from epiloss.presentation.plot.style import side_colours
from figure_texts import STYLES, overlapping

matplotlib.use("Agg")

OPTIONS: dict[str, Any] = {"method": "partition", "n_bins": 6, "task": "binary"}


@pytest.fixture(autouse=True)
def pictures_are_closed() -> Iterator[None]:
    yield
    pyplot.close("all")


def drawn_audit(seed: int, *, n: int = 6_000, off: float = 0.1, rare: bool = False) -> Audit:
    """Return an audit in which the rates of group b are off from its scores."""
    generator = np.random.default_rng(seed)
    scores = generator.uniform(0.15, 0.85, n)
    chances = [0.55, 0.25, 0.19, 0.01] if rare else [0.5, 0.25, 0.25, 0.0]
    groups = generator.choice(np.array(["a", "b", "c", "d"], object), n, p=chances)
    rates = scores + off * (groups == "b")
    return audit((generator.random(n) < rates).astype(int), scores, subgroups=groups, **OPTIONS)


def by_hand(result: Audit, group: str) -> tuple[float, float]:
    """Return the difference of a group and its standard error, with loops."""
    levels = dict(
        zip(result.level_sets["level_set"].tolist(), result.level_sets["label_mean"], strict=True)
    )
    regions = result.regions
    cells = list(
        zip(
            regions["subgroup"], regions["level_set"].tolist(), regions["n"], regions["label_mean"],
            strict=True,
        )
    )  # fmt: skip
    total = sum(n for name, _, n, _ in cells if name == group)
    difference = variance = 0.0
    for name, level, n, rate in cells:
        if name == group:
            difference += n / total * (rate - levels[level])
    for level in levels:
        own = sum(n for name, here, n, _ in cells if here == level and name == group)
        everybody = sum(n for _, here, n, _ in cells if here == level)
        for name, here, n, rate in cells:
            if here == level:
                slope = own / total * ((name == group) - n / everybody)
                smooth = (rate * n + 0.5) / (n + 1)
                variance += slope**2 * smooth * (1 - smooth) / n
    return difference, variance**0.5


@pytest.mark.parametrize("rare", [False, True], ids=["large groups", "joined groups"])
def test_the_numbers_are_those_of_a_loop_over_level_sets(rare: bool) -> None:
    result = drawn_audit(0, n=3_000, rare=rare)
    table = HeterogeneityDisplay.from_audits({"m": result}).table
    for row, group in enumerate(table["subgroup"]):
        difference, stderr = by_hand(result, group)
        assert table["difference"][row] == pytest.approx(difference, abs=1e-12)
        assert table["stderr"][row] == pytest.approx(stderr, rel=1e-9)
        half = (table["high"][row] - table["low"][row]) / 2
        assert half == pytest.approx(1.959964 * stderr, rel=1e-5)


def test_every_row_is_counted_once_also_where_groups_were_joined() -> None:
    result = drawn_audit(0, n=1_000, rare=True)
    table = heterogeneity(result)
    assert any(" + " in name for name in table["subgroup"])
    assert len(set(table["subgroup"])) == len(table)
    assert table["n"].sum() == result.n_evaluated
    # what one group is above its level sets, the others are below
    assert np.sum(table["n"] * table["difference"]) == pytest.approx(0, abs=1e-8)


def test_the_interval_holds_a_known_difference() -> None:
    held = []
    for seed in range(40):
        table = heterogeneity(drawn_audit(seed, n=3_000))
        rows = {name: row for row, name in enumerate(table["subgroup"])}
        # b is 0.1 above the scores, and a quarter of everybody: so everybody is 0.025 above them
        for name, truth in (("a", -0.025), ("b", 0.075), ("c", -0.025)):
            held.append(table["low"][rows[name]] <= truth <= table["high"][rows[name]])
    assert 0.88 <= np.mean(held) <= 1


def test_a_rare_group_that_is_off_by_a_tenth_shows_a_tenth() -> None:
    generator = np.random.default_rng(5)
    scores = generator.uniform(0.2, 0.8, 40_000)
    rare = generator.random(40_000) < 0.03
    y = (generator.random(40_000) < scores + 0.1 * rare).astype(int)
    groups = np.where(rare, "one", "the others")
    table = heterogeneity(audit(y, scores, subgroups=groups, **OPTIONS))
    row = table["subgroup"].tolist().index("one")
    truth = 0.1 * (1 - rare.mean())  # everybody is off by its own part
    assert table["low"][row] <= truth <= table["high"][row]
    assert table["high"][row] > 0.1
    assert table["low"][row] > 0.05


def test_one_model_has_sorted_bars_as_long_as_the_differences() -> None:
    display = HeterogeneityDisplay.from_audits({"m": drawn_audit(1)}).plot()
    lengths = [bar.get_width() for bar in display.bars_]
    assert lengths == sorted(lengths, reverse=True)
    np.testing.assert_allclose(np.sort(lengths), np.sort(display.table["difference"]))
    whiskers = np.array(display.bars_.errorbar.lines[2][0].get_segments())
    np.testing.assert_allclose(np.sort(whiskers[:, 0, 0]), np.sort(display.table["low"]))
    np.testing.assert_allclose(np.sort(whiskers[:, 1, 0]), np.sort(display.table["high"]))
    assert display.ax_.get_yticklabels()[0].get_text().startswith("b (")
    display = HeterogeneityDisplay.from_audits({"m": drawn_audit(1)}).plot(bar_kw={"alpha": 0.4})
    assert display.bars_[0].get_alpha() == 0.4


def test_several_models_have_a_map_centred_at_zero_with_the_numbers_in_it() -> None:
    audits = {"one": drawn_audit(1), "two": drawn_audit(2, off=-0.1)}
    display = HeterogeneityDisplay.from_audits(audits).plot(image_kw={"cmap": "BrBG"})
    values, groups = display.image_.get_array(), display.groups()
    low, high = display.image_.get_clim()
    assert low == -high
    assert display.image_.get_cmap().name == "BrBG"
    shown = {text.get_position(): text.get_text() for text in display.texts_}
    for model, group, difference, below, above in zip(
        *(display.table[name] for name in ("model", "subgroup", "difference", "low", "high")),
        strict=True,
    ):
        y, x = display.models.index(model), groups.index(group)
        assert values[y, x] == difference
        text = f"{difference:+z.3f}".replace("-", "−")
        assert shown[x, y] == (f"({text})" if below <= 0 <= above else text)


def test_small_groups_are_in_the_table_but_not_in_the_picture() -> None:
    audits = {"one": drawn_audit(0, n=1_000, rare=True), "two": drawn_audit(3, n=1_000, rare=True)}
    display = HeterogeneityDisplay.from_audits(audits).plot(smallest=100)
    large = display.table["n"] >= 100
    assert 0 < large.sum() < len(large)
    assert np.sum(~np.ma.getmaskarray(np.ma.masked_invalid(display.image_.get_array()))) == large.sum()
    assert len(display.texts_) == large.sum()
    nothing = HeterogeneityDisplay.from_audits(audits).plot(smallest=10_000, colorbar=False)
    assert len(nothing.texts_) == len(large)
    assert nothing.colorbar_ is None


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize("size", [None, (3, 3)])
def test_heterogeneity_fits_any_style_and_a_column(style: str, n_models: int, size: Any) -> None:
    audits = {
        f"a model with a long name {i}": drawn_audit(i, n=1_000, rare=True) for i in range(n_models)
    }
    with pyplot.style.context(style):
        ax = None if size is None else pyplot.subplots(figsize=size, layout="constrained")[1]
        display = HeterogeneityDisplay.from_audits(audits).plot(ax)
        assert ax is None or display.ax_ is ax
        level = [pair for pair in overlapping(display.figure_) if not slanted(display, pair)]
        assert level == []


def slanted(display: HeterogeneityDisplay, pair: tuple[str, str]) -> bool:
    """Tell whether both texts are slanted labels, whose boxes overlap though their letters do not."""
    labels = {label.get_text() for label in display.ax_.get_xticklabels() if label.get_rotation() > 0}
    return bool(labels) and (pair[0] in labels or pair[1] in labels)


def test_audits_without_groups_are_refused_in_words() -> None:
    scores = np.linspace(0.1, 0.9, 200)
    blind = audit((scores > 0.5).astype(int), scores, **OPTIONS)
    with pytest.raises(OptionError, match="subgroups="):
        HeterogeneityDisplay.from_audits({"m": blind})
    with pytest.raises(OptionError, match="empty"):
        HeterogeneityDisplay.from_audits({})


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_sides_have_the_colours_of_other_plots(style: str) -> None:
    with pyplot.style.context(style):
        bars = HeterogeneityDisplay.from_audits({"m": drawn_audit(1)}).plot()
        audits = {"one": drawn_audit(1), "two": drawn_audit(2, off=-0.1)}
        image = HeterogeneityDisplay.from_audits(audits).plot().image_
        under, over = map(colors.to_rgba, side_colours(bars.ax_))
    above = bars.bars_[0]
    assert above.get_width() > 0
    assert above.get_facecolor() == under
    low, high = image.get_clim()
    assert np.allclose(image.to_rgba(np.array([low, high])), [over, under])
