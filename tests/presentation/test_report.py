"""Reports without a browser: what they say, what they never let through, and how large they get."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epiloss
from epiloss.auditing.result import Audit
from epiloss.auditing.views import difference_of_halves, repartitioned
from epiloss.input.row_display import Display
from epiloss.partition import Tree
from epiloss.presentation.report import audit_card, audit_page, comparison_page, diagram, wording
from epiloss.presentation.report.diagram import MOST_REGIONS
from epiloss.simulate import Sigmoid
from epiloss.table import Table
from report_pages import EVIL, Page, check_harmless

LIMIT = 1_500_000


@pytest.fixture(scope="module")
def sample() -> Any:
    return Sigmoid(perturbation="step").sample(2_000)


@pytest.fixture(scope="module")
def audit(sample: Any) -> Audit:
    return epiloss.audit(sample.y, sample.scores, sample.X, method="partition", recalibrate="isotonic")


@pytest.fixture(scope="module")
def page(audit: Audit) -> str:
    return audit_page(audit)


def several_classes() -> tuple[Any, Any, Any]:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(1_500, 3))
    raw = np.exp(np.column_stack([X[:, 0], X[:, 1], -X[:, 0]]))
    scores = raw / raw.sum(axis=1, keepdims=True)
    shifted = raw * np.exp(np.column_stack([X[:, 2] > 0, X[:, 2] < 0, X[:, 1] > 0]))
    rates = np.cumsum(shifted / shifted.sum(axis=1, keepdims=True), axis=1)
    labels = (generator.random((1_500, 1)) > rates[:, :2]).sum(axis=1)
    return np.array(["cat", EVIL[0], EVIL[1]], object)[labels], scores, X


def with_regions(audit: Audit, n: int) -> Audit:
    """Return an audit of as many regions as a large one has, with long rules and without its rows."""
    pick = np.arange(n) % len(audit.regions)
    columns = dict(audit.regions.take(pick).columns)
    columns["rule"] = np.array(
        [
            f"feature_number_{k % 40} > {k / 7:.4f} and category_{k % 11} is not {k % 13}"
            for k in range(n)
        ],
        object,
    )
    return replace(audit, regions=Table(columns), details=None)


def numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for part in value.values() for number in numbers_in(part)]
    if isinstance(value, list):
        return [number for part in value for number in numbers_in(part)]
    return [value] if isinstance(value, float) else []


def test_the_page_tells_the_verdict_and_the_ledger(audit: Audit, page: str) -> None:
    text = Page(page).text
    assert " ".join(audit.verdict.reason.split()) in text
    ledger = str(audit).split("Bounds on")[0]
    numbers = re.findall(r"-?\d\.\d{5}", ledger)
    assert len(numbers) == 24
    assert all(number in text for number in numbers)
    for title in (
        "calibration loss",
        "grouping loss, at least",
        "remainder",
        "as given",
        "recalibrated",
    ):
        assert title in text


def test_every_part_is_there_and_in_order(page: str) -> None:
    headings = re.findall(r'<h2 id="(\w+)"', page)
    assert headings == [
        "verdict",
        "ledger",
        "segments",
        "diagram",
        "worst",
        "recalibration",
        "curve",
        "cost",
        "metrics",
        "checks",
        "method",
    ]
    assert len(re.findall(r"<h1>", page)) == 1
    found = Page(page)
    assert [tag for tag, _ in found.tags if tag in ("header", "main", "footer", "aside")] == [
        "header", "main", "aside", "footer"
    ]  # fmt: skip
    tables = sum(tag == "table" for tag, _ in found.tags)
    assert tables == sum(tag == "caption" for tag, _ in found.tags)


def test_the_page_gives_versions_options_seed_and_the_call(page: str) -> None:
    text = Page(page).text
    for name in ("epiloss", "numpy", "scikit-learn", "python"):
        assert name in text
    assert epiloss.__version__ in text
    assert np.__version__ in text
    call = "epiloss.audit( y_true, y_prob, X, task='binary', method='partition', "
    assert f"{call}recalibrate='isotonic', random_state=0, )" in text


def test_the_call_repeats_the_audit(sample: Any, audit: Audit, page: str) -> None:
    code = Page(page).text.split("import epiloss ")[1].split(" Options")[0]
    names = {"epiloss": epiloss, "y_true": sample.y, "y_prob": sample.scores, "X": sample.X}
    again, once = eval(code, names).to_dict(), audit.to_dict()
    for one in (again, again["recalibrated"], once, once["recalibrated"]):
        del one["remarks"]  # that the task was chosen: the call names it
    assert again == once


@pytest.mark.parametrize(
    "options",
    [
        {"method": "paper"},
        {"method": "paper", "partition": Tree(7), "split": 0.4},
        {
            "method": "partition",
            "partition": "kmeans",
            "strategy": "quantile",
            "n_bins": 6,
            "repeats": 2,
        },
        {"method": "partition", "partition": Tree(9), "n_bins": [0, 0.3, 1], "adjust": "max"},
        {"rule": "log", "curve": "isotonic", "confidence_level": 0.9, "tolerance": 0.02},
    ],
    ids=lambda options: " ".join(options),
)
def test_the_call_repeats_an_audit_with_any_options(sample: Any, options: dict[str, Any]) -> None:
    rows = slice(0, 400)
    data: dict[str, Any] = {"y_true": sample.y[rows], "y_prob": sample.scores[rows]}
    data |= {"X": sample.X[rows], "subgroups": sample.X[rows, 0] > 0}
    once = epiloss.audit(**data, task="binary", random_state=3, **options)
    code = "\n".join(wording.call(once)).removeprefix("import epiloss\n\n")
    assert eval(code, {"epiloss": epiloss, **data}).to_json() == once.to_json()


def test_the_same_audit_gives_the_same_bytes(audit: Audit, page: str) -> None:
    assert audit_page(audit) == page
    assert audit_card(audit) == audit_card(audit)


def test_only_our_script_and_our_style_are_allowed(page: str) -> None:
    found = Page(page)
    (policy,) = [
        one["content"]
        for tag, one in found.tags
        if tag == "meta" and one.get("http-equiv") == "Content-Security-Policy"
    ]
    for kind, text in (("script", found.raw["script"][1]), ("style", found.raw["style"][0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "img-src data:" in policy
    assert "innerHTML" not in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page


def test_numbers_of_the_data_are_finite(page: str) -> None:
    data = Page(page).data
    assert all(map(math.isfinite, numbers_in(data)))
    panel = data["panels"][-1]
    assert {len(panel[name]) for name in ("x", "y", "rule", "n", "rate", "p", "rows")} == {
        len(panel["x"])
    }


def test_typical_rows_come_with_their_scores_and_outcomes(sample: Any, audit: Audit, page: str) -> None:
    panel = next(one for one in Page(page).data["panels"] if one["view"] == "all")
    for place, rows in zip(panel["place"], panel["rows"], strict=True):
        numbers, scores, outcomes = rows
        assert audit.details is not None
        assert set(numbers) <= set(audit.details.rows(place).tolist())
        assert len(numbers) == min(8, audit.regions["n"][place])
        np.testing.assert_allclose(scores, sample.scores[numbers], atol=6e-4)
        np.testing.assert_array_equal(outcomes, sample.y[numbers])


def test_regions_lie_inside_their_level_set_sorted_by_rate(audit: Audit, page: str) -> None:
    panel = next(one for one in Page(page).data["panels"] if one["view"] == "all")
    levels = audit.level_sets
    for level_set, low, high in zip(levels["level_set"], levels["low"], levels["high"], strict=True):
        here = [i for i, level in enumerate(panel["level"]) if level == level_set]
        score = (np.array(panel["x"])[here] - 54) / 574
        assert ((score > low) & (score < high)).all()
        assert (np.diff(score) > 0).all()
        assert (np.diff(np.array(panel["rate"])[here]) >= 0).all()


def test_every_region_and_level_set_is_drawn_once(audit: Audit, page: str) -> None:
    figures = page.split('<figure class="panel"')[1:]
    for figure, panel in zip(figures, Page(page).data["panels"], strict=True):
        drawn = figure.split("<figcaption>")[0]
        for kind, start in (("points", r"h0"), ("bars", r"V")):
            paths = re.findall(rf'<path class="{kind} \w+" d="([^"]*)"', drawn)
            assert sum(len(re.findall(start, path)) for path in paths) == len(panel["x"])
        (curve,) = re.findall(r'<polyline class="curve" points="([^"]*)"', drawn)
        assert len(curve.split()) == len(audit.level_sets)


def test_regions_are_grey_where_they_may_be_noise() -> None:
    sample = Sigmoid(perturbation="step").sample(8_000)
    audit = epiloss.audit(sample.y, sample.scores, sample.X, method="partition")
    (panel,) = Page(audit_page(audit)).data["panels"]
    regions = audit.regions.take(np.array(panel["place"]))
    state, differs = np.array(panel["state"]), regions["pvalue_adjusted"] <= 0.05
    np.testing.assert_array_equal(state == 1, differs & (regions["deviation"] > 0))
    np.testing.assert_array_equal(state == 2, differs & (regions["deviation"] < 0))
    assert differs.any()
    assert not differs.all()


def test_the_first_view_parts_level_sets_by_prediction(sample: Any) -> None:
    result = epiloss.audit(sample.y, sample.scores, sample.X)
    panels = Page(audit_page(result)).data["panels"]
    assert [one["view"] for one in panels] == ["halves", "all"]
    halves = panels[0]
    assert len(halves["x"]) == 2 * len(result.level_sets)
    assert sum(halves["n"]) == result.n_samples
    assert set(halves["state"]) <= {0, 1, 2}


def test_a_diagram_without_colours_does_not_contradict_the_verdict(sample: Any) -> None:
    result = epiloss.audit(sample.y, sample.scores, sample.X)
    halves = repartitioned(result, "halves")
    coloured, grey = (
        diagram.panel(halves, "halves", None, 100),
        diagram.panel(_grey(halves), "halves", None, 100),
    )
    points = 100 * difference_of_halves(halves.regions)
    assert points > 2
    assert coloured.together().endswith(
        f"have a rate {points:.1f} points higher than rows of the lower halves with equal scores."
    )
    assert grey.together().endswith("but together they do (p < 0.0001).")
    nothing = replace(_grey(halves), grouping_loss=replace(result.grouping_loss, pvalue=0.4))
    assert "together they do" not in diagram.panel(nothing, "halves", None, 100).together()
    assert diagram.panel(result, "all", None, 100).together() == ""


def _grey(audit: Audit) -> Audit:
    columns = {**audit.regions.columns, "pvalue_adjusted": np.ones(len(audit.regions))}
    return replace(audit, regions=Table(columns))


def test_the_curve_has_no_spikes_of_a_few_rows(sample: Any) -> None:
    audit = epiloss.audit(sample.y, sample.scores, sample.X)
    n = audit.level_sets["n"].copy()
    n[3] = 9
    few = replace(audit, level_sets=Table({**audit.level_sets.columns, "n": n}))
    drawn = diagram.panel(few, "all", None, 100)
    assert len(drawn.curve()) == len(n) - 1
    assert set(drawn.level_points()) - set(drawn.curve()) == {drawn.level_points()[3]}


def test_the_tables_list_the_worst_regions_on_each_side(audit: Audit, page: str) -> None:
    for side in ("over", "under"):
        body = page.split(f'data-side="{side}"')[1].split("</table>")[0]
        places = [int(place) for place in re.findall(r'data-place="(\d+)"', body)]
        worst = audit.worst_regions(10, side=side)
        assert audit.regions["rule"][places].tolist() == worst["rule"].tolist()
        assert audit.regions["cost"][places].tolist() == worst["cost"].tolist()


def test_three_thousand_regions_stay_small_and_the_page_says_what_it_left_out(audit: Audit) -> None:
    text = audit_page(with_regions(audit, 3_000))
    assert len(text.encode()) < LIMIT
    assert len(Page(text).data["panels"][0]["x"]) == MOST_REGIONS
    assert "The 2,000 costliest regions are drawn; 1,000 others are not." in Page(text).text


def test_an_audit_without_its_rows_still_makes_a_page(audit: Audit) -> None:
    columns = {name: audit.regions[name] for name in audit.regions if name != "rule"}
    bare = replace(audit, regions=Table(columns), details=None)
    found = Page(audit_page(bare))
    assert {one["view"] for one in found.data["panels"]} == {"all"}
    assert set(found.data["panels"][0]["rows"]) == {None}
    assert "region 1" in found.text
    assert "epi-verdict" in audit_card(bare)


@pytest.mark.parametrize("evil", EVIL)
def test_names_and_texts_are_shown_as_text(sample: Any, evil: str) -> None:
    X = {evil: sample.X[:, 0], "b": np.where(sample.X[:, 1] > 0, evil, "other")}
    shown = {evil: np.array([f"{evil}{i}" for i in range(len(sample.y))], object)}
    result = epiloss.audit(sample.y, sample.scores, X, method="partition", display=shown)
    found = check_harmless(audit_page(result, title=evil))
    assert evil in found.texts
    assert any(evil in condition for condition in found.data["conditions"])
    assert found.data["columns"] == [evil]
    assert "<script" not in audit_card(result)
    assert "<img" not in audit_card(result)


@pytest.mark.parametrize("evil", EVIL)
def test_names_of_groups_and_models_are_shown_as_text(sample: Any, evil: str) -> None:
    groups = np.where(sample.X[:, 0] > 0.2, evil, "other")
    options: dict[str, Any] = {"subgroups": groups, "method": "partition"}
    result = epiloss.audit(sample.y, sample.scores, **options)
    found = check_harmless(audit_page(result))
    assert evil in found.texts
    models = {evil: sample.scores, "truth": sample.q}
    found = check_harmless(comparison_page(epiloss.compare(sample.y, models, **options)))
    assert any(evil in text for text in found.texts)


def test_control_characters_and_turns_of_direction_are_taken_out(sample: Any) -> None:
    X = {"a\x1b[31m\x00\u202eb\ud800": sample.X[:, 0]}
    text = audit_page(epiloss.audit(sample.y, sample.scores, X, method="partition"), title="a\nb\x07c")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", text)
    assert "<h1>a bc</h1>" in text
    assert "a[31mb" in text


@pytest.mark.parametrize("task", ["classwise", "joint"])
def test_classes_can_be_chosen(task: str) -> None:
    labels, scores, X = several_classes()
    result = epiloss.audit(labels, scores, X, task=task, n_bins=5)
    found = check_harmless(audit_page(result))
    values = [attributes["value"] for tag, attributes in found.tags if tag == "option"]
    assert values == ["0", "1", "2"]
    assert {"cat", EVIL[0], EVIL[1]} <= set(found.texts)
    panels = found.data["panels"]
    assert [one["class"] for one in panels] == [0, 1, 2] * (2 if task == "classwise" else 1)
    assert sum(len(one["x"]) for one in panels if one["view"] == "all") == len(result.regions)
    curves = [attributes for tag, attributes in found.tags if attributes.get("class") == "by-class"]
    assert len(curves) == (3 if task == "classwise" else 0)
    assert "<script" not in audit_card(result)


def test_groups_are_named(sample: Any) -> None:
    groups = np.where(sample.X[:, 0] > 0, "St. Mary's", "General")
    found = Page(audit_page(epiloss.audit(sample.y, sample.scores, subgroups=groups)))
    assert "St. Mary's" in found.data["conditions"]
    assert len(found.data["panels"]) == 1
    assert "y_true, y_prob, subgroups=subgroups" in found.text


def test_without_features_only_level_sets_are_shown(sample: Any) -> None:
    result = epiloss.audit(sample.y, sample.scores)
    found = Page(audit_page(result))
    assert "Only level sets are shown" in found.text
    assert "There are no regions to list." in found.text
    assert found.data["conditions"][0] == "scores 0.000 to 0.067"
    assert len(found.data["panels"][0]["x"]) == len(result.level_sets)


def test_one_level_set(sample: Any) -> None:
    constant = np.full(len(sample.y), 0.5)
    found = Page(audit_page(epiloss.audit(sample.y, constant, sample.X, method="partition")))
    assert "all scores are 0.5: there is only one level set" in found.text
    assert "1 level set," in found.text


def test_scores_that_vary_inside_one_level_set_are_told_how_to_part(sample: Any) -> None:
    near = epiloss.audit(sample.y, sample.scores / 100, sample.X, method="partition")
    assert any("strategy='quantile' divides them" in one for one in near.remarks)


def test_the_call_names_the_positive_label_of_strings(sample: Any) -> None:
    y = np.where(sample.y == 1, "yes", "no")
    result = epiloss.audit(y, sample.scores, sample.X, pos_label="yes", method="partition")
    assert "    pos_label='yes'," in wording.call(result)
    assert not any("pos_label" in line for line in wording.call(repeated(y == "yes", sample)))


def repeated(y: Any, sample: Any) -> Audit:
    return epiloss.audit(y, sample.scores, sample.X, method="partition")


def test_weights_and_clusters_are_part_of_the_call(sample: Any) -> None:
    weight = np.where(sample.X[:, 0] > 0, 2.0, 0.5)
    clusters = np.arange(len(sample.y)) // 4
    result = epiloss.audit(
        sample.y, sample.scores, sample.X, method="partition", sample_weight=weight, clusters=clusters
    )
    text = Page(audit_page(result)).text
    assert "sample_weight=sample_weight, clusters=clusters, task='binary'" in text


def test_an_infinite_score_is_said_in_words(sample: Any) -> None:
    scores = sample.scores.copy()
    scores[np.flatnonzero(sample.y == 1)[0]] = 0.0
    result = epiloss.audit(sample.y, scores, sample.X, rule="log", method="partition")
    assert math.isinf(result.score.value)
    found = Page(audit_page(result))
    assert "infinite" in found.text
    assert all(map(math.isfinite, numbers_in(found.data)))
    assert not re.search(r"\b(nan|inf)\b", found.text)
    assert "infinite" in audit_card(result)


def test_repeated_labels_measure_the_grouping_loss(sample: Any) -> None:
    generator = np.random.default_rng(1)
    ratings = (generator.random((len(sample.q), 3)) < sample.q[:, None]).astype(float)
    text = Page(audit_page(epiloss.audit(ratings, sample.scores, sample.X, method="partition"))).text
    assert "(irreducible loss)" in text
    assert "+ grouping loss what" in text


def test_missing_values_and_rows_left_out(sample: Any) -> None:
    X = sample.X.copy()
    X[:, 1] = np.nan
    X[::3, 0] = np.nan
    weight = np.where(np.arange(len(sample.y)) % 5 == 0, 0.0, 1.0)
    display = [f"person {i}" for i in range(len(sample.y))]
    result = epiloss.audit(
        sample.y, sample.scores, X, method="partition", sample_weight=weight, display=display
    )
    data = Page(audit_page(result)).data
    assert data["columns"] == [""]
    assert all(texts == [f"person {row}"] for row, texts in data["texts"].items())
    assert all(int(row) % 5 for row in data["texts"])


@pytest.mark.parametrize("kind", ["pixels", "colours", "files"])
def test_thumbnails_are_inside_the_page(sample: Any, kind: str, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    n = len(sample.y)
    generator = np.random.default_rng(0)
    shape = (n, 12, 16) if kind == "pixels" else (n, 12, 16, 3)
    images: Any = generator.integers(0, 255, shape, dtype=np.uint8)
    if kind == "files":
        paths = [tmp_path / f"secret {i}.png" for i in range(20)]
        for pixels, path in zip(images, paths, strict=False):
            image.fromarray(pixels).save(path)
        images = [paths[i % 20] for i in range(n)]
    text = audit_page(
        epiloss.audit(sample.y, sample.scores, sample.X, method="partition", display=images)
    )
    addresses = Page(text).data["images"].values()
    assert 100 < len(addresses) <= 420
    assert all(address.startswith("data:image/jpeg;base64,") for address in addresses)
    assert "secret" not in text
    check_harmless(text)


def test_images_from_elsewhere_are_left_out(audit: Audit) -> None:
    class Elsewhere(Display):
        def texts(self, row: int) -> dict[str, str]:
            return {}

        def thumbnail(self, row: int) -> str:
            return "https://example.org/pixel.jpg"

    assert audit.details is not None
    text = audit_page(replace(audit, details=replace(audit.details, display=Elsewhere({}))))
    assert "example.org" not in text
    assert Page(text).data["images"] == {}


def test_long_texts_are_kept_for_the_costliest_regions_only(sample: Any) -> None:
    display = [f"{i} " + "word " * 100 for i in range(len(sample.y))]
    result = epiloss.audit(
        sample.y, sample.scores, sample.X, method="partition", partition=Tree(4), display=display
    )
    text = audit_page(result)
    assert len(text.encode()) < LIMIT
    (panel,) = [one for one in Page(text).data["panels"] if one["view"] == "all"]
    assert panel["rows"][panel["costliest"]] is not None


def test_the_card_is_small_and_scoped(audit: Audit) -> None:
    card = audit_card(audit)
    assert audit._repr_html_() == card
    assert "<script" not in card
    assert len(card) < 100_000
    found = Page(card)
    assert " ".join(audit.verdict.reason.split()) in found.text
    rules = re.findall(r"([^{}]+)\{", found.raw["style"][0])
    assert all(part.strip().startswith(".epiloss-card") for rule in rules for part in rule.split(","))


def test_the_comparison_shows_every_model_and_difference(sample: Any) -> None:
    models = {"logistic": sample.scores, "truth": sample.q, "squared": sample.scores**2}
    result = epiloss.compare(
        sample.y, models, sample.X, method="partition", recalibrate="isotonic", baseline="logistic"
    )
    text = comparison_page(result)
    found = check_harmless(text)
    assert result.to_html() == text
    assert "epiloss.compare( y_true, models, X, baseline='logistic'," in found.text
    for name, one in result.audits.items():
        assert name in found.texts
        assert " ".join(one.verdict.sentence.split()) in found.text
    numbers = re.findall(r"[-+]\d\.\d{5}", str(result))
    assert all(number.lstrip("+") in found.text for number in numbers)
    assert sum(tag == "details" for tag, _ in found.tags) == 3
    names = re.findall(r'<th scope="row" class="text" data-value="(\w+)"', text)[:3]
    assert names == list(result.audits)


def test_an_infinite_score_is_the_last_of_a_comparison(sample: Any) -> None:
    certain = np.where(sample.scores > 0.5, 1.0, 0.0)
    models = {"certain": certain, "logistic": np.clip(sample.scores, 0.01, 0.99)}
    result = epiloss.compare(sample.y, models, sample.X, method="partition", rule="log")
    text = comparison_page(result)
    assert 'data-value="Infinity"' in text
    assert not re.search(r"\b(nan|inf)\b", text.split("<script")[0])


def test_a_comparison_of_one_model_has_no_differences(sample: Any) -> None:
    result = epiloss.compare(sample.y, {"only": sample.scores}, sample.X, method="partition")
    assert "Differences from" not in comparison_page(result)


@pytest.mark.parametrize("kind", ["fine", "recalibrate", "repair", "unclear"])
def test_every_verdict_has_a_sign_and_a_word(audit: Audit, kind: str, monkeypatch: Any) -> None:
    verdict = replace(audit.verdict, kind=kind)
    monkeypatch.setattr(Audit, "verdict", verdict)
    text = audit_page(audit)
    assert f'class="verdict {kind}"' in text
    assert re.search(r'<span class="sign" aria-hidden="true">.</span>\w+', text)


def test_the_page_is_written_to_a_file(audit: Audit, page: str, tmp_path: Path) -> None:
    audit.to_html(tmp_path / "audit.html")
    assert (tmp_path / "audit.html").read_text("utf-8") == page
