"""Reports in a real browser: they open from a file, answer to mouse and keys, and stay harmless."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epiloss
from browser import chromium, emulate, open_page, requests
from epiloss.partition import Tree
from epiloss.presentation.report import (
    audit_card,
    audit_page,
    comparison_page,
    drift_page,
    repair_page,
)
from epiloss.presentation.report.series_pages import regret_page, tracking_page
from epiloss.simulate import Sigmoid

KINDS = ("comparison", "drift", "repair", "tracking", "regret")  # pages that are not audits
EVIL = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>"
# moves the pointer 200 times; returns the median time, the most elements that one move changed, and
# how many moves came to another region
MOVES = """
const stage = document.querySelector("figure.panel:not([hidden]) .stage");
const box = stage.getBoundingClientRect();
const records = [];
const observer = new MutationObserver((found) => records.push(...found));
observer.observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true});
const times = [];
const touched = [];
for (let i = 0; i < 200; i++) {
  const x = box.left + box.width * (0.1 + 0.85 * i / 200);
  const y = box.top + box.height * (0.2 + 0.6 * ((i * 37) % 100) / 100);
  const start = performance.now();
  stage.dispatchEvent(new PointerEvent("pointermove", {clientX: x, clientY: y, bubbles: true}));
  times.push(performance.now() - start);
  touched.push(new Set(observer.takeRecords().map((record) => record.target)).size);
}
observer.disconnect();
times.sort((a, b) => a - b);
return {median: times[100], touched: Math.max(...touched), moved: touched.filter((n) => n > 0).length};
"""
CONTRAST = """
function channels(text) {
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.fillStyle = text;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
}
function light(text) {
  const linear = (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const part = channels(text).map((c) => linear(c / 255));
  return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
}
function behind(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (colour !== "rgba(0, 0, 0, 0)") return colour;
  }
  return "white";
}
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const parent = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !parent.checkVisibility()) continue;
  if (parent.closest("script")) continue;
  const style = getComputedStyle(parent);
  const front = light(parent.closest("svg") ? style.fill : style.color);
  const back = light(behind(parent));
  const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
  found.push([ratio, walker.currentNode.textContent.trim().slice(0, 30)]);
}
found.sort((a, b) => a[0] - b[0]);
return found[0];
"""


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with chromium() as started:
        yield started


def tracked(sample: Any) -> epiloss.Tracking:
    """Follow a model whose outcomes change, over ten days of 200 rows."""
    now = Sigmoid(perturbation="step").sample(2_000, random_state=2)
    days = np.repeat(np.arange(10), 200)
    X, X_now = ({"age": one.X[:, 0], EVIL: one.X[:, 1]} for one in (sample, now))
    reference = sample.y, sample.scores, X
    return epiloss.track(reference, (1 - now.y, now.scores, X_now), days)


@pytest.fixture(scope="module")
def sample() -> Any:
    return Sigmoid(perturbation="step").sample(2_000)


@pytest.fixture(scope="module")
def pages(sample: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write all kinds of pages once."""
    folder = tmp_path_factory.mktemp("reports")
    options: dict[str, Any] = {"n_jobs": 1}
    X = {"age": 40 + 10 * sample.X[:, 0], EVIL: sample.X[:, 1]}
    shown = {"name": [f"person {i}" for i in range(len(sample.y))], EVIL: [EVIL] * len(sample.y)}
    audit = epiloss.audit(sample.y, sample.scores, X, recalibrate="isotonic", display=shown, **options)
    large = Sigmoid(perturbation="step").sample(15_000)
    scores = np.column_stack([1 - sample.scores, sample.scores / 2, sample.scores / 2])
    labels = np.where(sample.y == 0, "no", np.where(sample.X[:, 1] > 0, "yes", EVIL))
    models = {"logistic": sample.scores, EVIL: sample.q}
    halves = {"side": np.where(sample.X[:, 0] > 0, "left", EVIL), EVIL: sample.X[:, 1] > 0}
    by_group = epiloss.audit(sample.y, sample.scores, X, subgroups=halves, **options)
    both = tuple((one.y, one.scores, one.X) for one in (sample, Sigmoid().sample(2_000, random_state=1)))
    about: Any = {"title": EVIL, "model": EVIL, "data": EVIL, "command": EVIL}
    texts = {
        "audit": audit_page(audit, title=EVIL),
        "subgroups": audit_page(by_group, intersections=[("side", EVIL)], **about),
        "drift": drift_page(epiloss.drift(*both, **options), **about),
        "repair": repair_page(audit.repair(), **about),
        "crowd": audit_page(epiloss.audit(large.y, large.scores, large.X, partition=Tree(6), **options)),
        "images": audit_page(
            epiloss.audit(
                sample.y,
                sample.scores,
                sample.X,
                display=np.zeros((len(sample.y), 8, 8), np.uint8),
                **options,
            )
        ),
        "classes": audit_page(epiloss.audit(labels, scores, sample.X, task="classwise", **options)),
        "level sets": audit_page(epiloss.audit(sample.y, sample.scores)),
        "comparison": comparison_page(epiloss.compare(sample.y, models, X, **options), title=EVIL),
        "tracking": tracking_page(tracked(sample), **about),
        "regret": regret_page(epiloss.regret(audit, cost_fp=1, cost_fn=3), **about),
        "card": f"<!DOCTYPE html><meta charset=utf-8><body>{audit_card(audit)}</body>",
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, "utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.fixture(
    params=[
        "audit", "crowd", "images", "classes", "level sets", "card", "subgroups", *KINDS,
    ]
)  # fmt: skip
def each(request: pytest.FixtureRequest, pages: dict[str, Path]) -> Path:
    return pages[request.param]


def find(driver: Any, selector: str) -> Any:
    return driver.find_element("css selector", selector)


def text_of(driver: Any, selector: str) -> str:
    return str(find(driver, selector).get_property("textContent"))


def point(driver: Any, name: str = "costliest") -> dict[str, Any]:
    """Return where the costliest region of the shown diagram is on the screen, and its rule."""
    script = f"""
    const diagram = current();
    const i = diagram.panel.{name};
    diagram.svg.scrollIntoView({{block: "center", behavior: "instant"}});
    const place = new DOMPoint(diagram.panel.x[i], diagram.panel.y[i])
      .matrixTransform(diagram.svg.getScreenCTM());
    return {{x: place.x, y: place.y, rule: ruleOf(diagram.panel, i), n: diagram.panel.x.length}};
    """
    found: dict[str, Any] = driver.execute_script(script)
    return found


def mouse(driver: Any, kind: str, place: dict[str, Any]) -> None:
    """Move or press as a person does, through the browser's own input."""
    event = {"type": kind, "x": place["x"], "y": place["y"], "button": "left", "clickCount": 1}
    if kind == "mouseMoved":
        event |= {"button": "none", "clickCount": 0}
    driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)


def press(driver: Any, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    for key in keys:
        ActionChains(driver).send_keys(key).perform()


def column(driver: Any, number: int, table: str = "table.worst") -> list[str]:
    script = """return [...document.querySelector(arguments[0]).tBodies[0].rows]
    .filter((row) => !row.hidden).map((row) => row.cells[arguments[1]].dataset.value)"""
    found: list[str] = driver.execute_script(script, table, number)
    return found


def test_it_opens_from_a_file_with_no_error_and_asks_for_nothing_else(driver: Any, each: Path) -> None:
    driver.get_log("browser")
    requests(driver)
    open_page(driver, each)
    time.sleep(0.2)
    messages = [entry for entry in driver.get_log("browser") if "favicon" not in entry["message"]]
    assert messages == []
    addresses = requests(driver)
    assert addresses
    assert all(address.startswith(("file:", "data:")) for address in addresses)
    assert sum(address.startswith("file:") for address in addresses) == 1


def test_nothing_from_the_data_runs(driver: Any, pages: dict[str, Path]) -> None:
    for name in ("audit", "classes", "comparison", "subgroups", "drift", "repair"):
        open_page(driver, pages[name])
        assert driver.execute_script("return window.pwned") is None
        assert driver.execute_script("return document.scripts.length") == 2
        assert EVIL in find(driver, "body").text
    open_page(driver, pages["audit"])
    assert find(driver, "h1").text == EVIL
    assert EVIL in text_of(driver, "#selection")
    assert driver.execute_script("return document.querySelectorAll('#selection img').length") == 0


def test_hovering_a_region_shows_its_rule(driver: Any, pages: dict[str, Path]) -> None:
    open_page(driver, pages["audit"])
    assert not find(driver, ".tooltip").is_displayed()
    place = point(driver)
    mouse(driver, "mouseMoved", {**place, "x": place["x"] + 3, "y": place["y"] - 3})
    assert find(driver, ".tooltip").is_displayed()
    assert text_of(driver, ".tooltip strong") == place["rule"]
    assert "adjusted p" in text_of(driver, ".tooltip")
    mouse(driver, "mouseMoved", {"x": 2, "y": 2})
    assert not find(driver, ".tooltip").is_displayed()


def test_clicking_a_region_shows_its_rows(driver: Any, pages: dict[str, Path]) -> None:
    open_page(driver, pages["audit"])
    driver.execute_script("current().panel.other = current().panel.x.length - 3")
    place = point(driver, "other")
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        mouse(driver, kind, place)
    assert text_of(driver, "#selection strong") == place["rule"]
    rows = driver.find_elements("css selector", "#selection tbody tr")
    assert 1 <= len(rows) <= 8
    number, score, outcome = (cell.text for cell in rows[0].find_elements("css selector", "td.number"))
    assert f"person {number}" in rows[0].text
    assert 0 <= float(score) <= 1
    assert outcome in ("0", "1")


def test_the_keyboard_does_what_the_mouse_does(driver: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(driver, pages["audit"])
    find(driver, "input[name=view]").send_keys(Keys.TAB)
    assert driver.execute_script("return document.activeElement === current().stage")
    assert text_of(driver, ".tooltip strong")
    press(driver, Keys.HOME)
    first = text_of(driver, ".tooltip strong")
    press(driver, Keys.ARROW_RIGHT)
    second = text_of(driver, ".tooltip strong")
    assert driver.execute_script("return current().shown") == 1
    assert second == driver.execute_script("return ruleOf(current().panel, 1)")
    press(driver, Keys.ENTER)
    assert text_of(driver, "#selection strong") == second != first
    assert find(driver, "#selection").get_attribute("aria-live") == "polite"
    press(driver, Keys.ARROW_UP)
    levels = driver.execute_script(
        "return [current().panel.level[1], current().panel.level[current().shown]]"
    )
    assert levels[1] > levels[0]
    press(driver, Keys.ESCAPE)
    assert not find(driver, ".tooltip").is_displayed()
    outline = driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_tables_sort_both_ways_by_mouse_and_by_key(driver: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(driver, pages["crowd"])
    find(driver, ".folded summary").send_keys(Keys.ENTER)
    buttons = driver.find_elements("css selector", "table.worst th button")
    headers = driver.find_elements("css selector", "table.worst th")
    cost = [float(value) for value in column(driver, 6)]
    assert cost == sorted(cost, reverse=True)
    driver.execute_script("arguments[0].click()", buttons[2])
    rows = [float(value) for value in column(driver, 2)]
    assert rows == sorted(rows, reverse=True)
    assert headers[2].get_attribute("aria-sort") == "descending"
    assert headers[6].get_attribute("aria-sort") == "none"
    buttons[2].send_keys(Keys.ENTER)
    assert [float(value) for value in column(driver, 2)] == sorted(rows)
    assert headers[2].get_attribute("aria-sort") == "ascending"
    driver.execute_script("arguments[0].click()", buttons[0])
    names = column(driver, 0)
    assert names != sorted(names) or len(set(names)) == 1


def test_a_line_of_a_table_selects_its_region(driver: Any, pages: dict[str, Path]) -> None:
    open_page(driver, pages["crowd"])
    driver.execute_script("arguments[0].click()", find(driver, ".folded summary"))
    button = driver.find_elements("css selector", "table.worst .pick")[2]
    driver.execute_script("arguments[0].click()", button)
    assert text_of(driver, "#selection strong") == button.text
    assert find(driver, "input[value=all]").is_selected()
    chosen = find(driver, "tr.chosen").get_attribute("data-place")
    picked = driver.execute_script("return current().panel.place[current().picked]")
    assert int(chosen) == picked


def test_views_and_classes_can_be_chosen(driver: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.support.ui import Select

    open_page(driver, pages["classes"])
    chooser = Select(find(driver, "#class"))
    for option in ("yes", EVIL):
        chooser.select_by_visible_text(option)
        number = next(k for k, one in enumerate(chooser.options) if one.is_selected())
        shown = driver.find_elements("css selector", "figure.panel:not([hidden])")
        assert len(shown) == 1
        assert driver.execute_script("return current().panel.class") == number
        assert option in find(driver, "figure.panel:not([hidden]) title").get_property("textContent")
        rows = "return [...document.querySelectorAll('table.worst tbody tr:not([hidden])')]"
        classes = driver.execute_script(f"{rows}.map((row) => row.dataset.class)")
        assert set(classes) == {str(number)}
    before = point(driver)["n"]
    driver.execute_script("document.querySelector('input[name=view]:not(:checked)').click()")
    assert point(driver)["n"] != before


@pytest.mark.parametrize("name", ["audit", "level sets", "subgroups", *KINDS])
def test_text_can_be_read_in_both_themes(driver: Any, pages: dict[str, Path], name: str) -> None:
    background = "return getComputedStyle(document.documentElement).backgroundColor"
    open_page(driver, pages[name])
    light = driver.execute_script(background)
    ratio, text = driver.execute_script(CONTRAST)
    assert ratio >= 4.5, text
    find(driver, "#theme").click()
    dark = driver.execute_script(background)
    assert dark != light
    ratio, text = driver.execute_script(CONTRAST)
    assert ratio >= 4.5, text
    assert find(driver, "#theme").get_attribute("aria-label") == "Switch to light theme"
    find(driver, "#theme").click()
    assert driver.execute_script(background) == light


def test_it_follows_the_theme_that_the_reader_prefers(driver: Any, pages: dict[str, Path]) -> None:
    open_page(driver, pages["audit"])
    emulate(driver, theme="dark")
    background = "return getComputedStyle(document.documentElement).backgroundColor"
    dark = driver.execute_script(background)
    driver.refresh()
    assert find(driver, "#theme").text == "Light"
    find(driver, "#theme").click()
    assert driver.execute_script(background) != dark


def test_a_move_of_the_mouse_touches_a_handful_of_elements(driver: Any, pages: dict[str, Path]) -> None:
    counts = {}
    for name in ("audit", "crowd"):
        open_page(driver, pages[name])
        driver.execute_script("state.view = 'all'; refresh()")
        work = driver.execute_script(MOVES)
        counts[name] = point(driver)["n"]
        assert work["moved"] > 20
        assert work["touched"] <= 12  # the tooltip, its seven texts, the ring
        assert work["median"] < 16
    assert counts["crowd"] > 500
    drawn = driver.execute_script("return current().svg.querySelectorAll('*').length")
    assert drawn < 80  # regions are parts of paths, not elements


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_sticks_out_sideways(driver: Any, each: Path, width: int) -> None:
    open_page(driver, each, width=width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1280, 390])
def test_the_tooltip_stays_inside_and_leaves_its_region_in_sight(
    driver: Any, pages: dict[str, Path], width: int
) -> None:
    open_page(driver, pages["audit"], width=width)
    hidden, outside = driver.execute_script("""
    const diagram = current();
    const stage = diagram.stage.getBoundingClientRect();
    const found = [0, 0];
    diagram.panel.x.forEach((x, i) => {
      diagram.show(i);
      const box = diagram.tooltip.getBoundingClientRect();
      const place = new DOMPoint(x, diagram.panel.y[i]).matrixTransform(diagram.svg.getScreenCTM());
      const across = place.x > box.left && place.x < box.right;
      found[0] += across && place.y > box.top && place.y < box.bottom;
      found[1] += box.left < stage.left - 1 || box.right > stage.right + 1 || box.top < stage.top - 1;
    });
    return found;
    """)
    assert (hidden, outside) == (0, 0)


def test_paper_has_no_controls_and_is_light(driver: Any, pages: dict[str, Path]) -> None:
    open_page(driver, pages["audit"])
    find(driver, "#theme").click()
    emulate(driver, media="print", theme="dark")
    assert not find(driver, "#theme").is_displayed()
    assert not find(driver, ".controls").is_displayed()
    assert find(driver, "svg.diagram").is_displayed()
    assert find(driver, "table.gaps").is_displayed()
    colour = driver.execute_script("return getComputedStyle(document.documentElement).backgroundColor")
    assert colour == "rgb(255, 255, 255)"
    overflow = driver.execute_script(
        "return getComputedStyle(document.querySelector('.scroll')).overflowX"
    )
    assert overflow == "visible"
    emulate(driver)


@pytest.mark.parametrize(
    "name",
    ["audit", "crowd", "classes", "level sets", "subgroups", *KINDS],
)
def test_nothing_is_cut_off_on_paper(driver: Any, pages: dict[str, Path], name: str) -> None:
    open_page(driver, pages[name], width=739)  # a letter with narrow margins
    emulate(driver, media="print")
    assert driver.execute_script("return document.documentElement.scrollWidth") <= 739
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert driver.execute_script("return document.querySelectorAll('details:not([open])').length") == 0
    emulate(driver)


def test_thumbnails_are_shown(driver: Any, pages: dict[str, Path]) -> None:
    open_page(driver, pages["images"])
    script = "return [...document.querySelectorAll('#selection img')].map((one) => one.naturalWidth)"
    deadline = time.time() + 5
    while time.time() < deadline and 0 in (driver.execute_script(script) or [0]):
        time.sleep(0.05)
    widths = driver.execute_script(script)
    assert widths
    assert set(widths) == {48}  # eight pixels would hardly be seen


@pytest.mark.parametrize("name", ["audit", "subgroups", "drift", "repair", "comparison", "tracking"])
def test_tables_are_cards_on_a_phone_that_name_every_number(
    driver: Any, pages: dict[str, Path], name: str
) -> None:
    open_page(driver, pages[name], width=390)
    heads = driver.find_elements("css selector", "table.gaps thead")
    assert heads
    assert not any(head.is_displayed() for head in heads)
    unnamed = driver.execute_script("""
    return [...document.querySelectorAll("table.gaps td.number")].filter((cell) =>
      cell.textContent.trim() && getComputedStyle(cell, "::before").content.length < 3).length
    """)
    assert unnamed == 0
    open_page(driver, pages[name])
    heads = driver.find_elements("css selector", "table.gaps:not(details:not([open]) *) thead")
    assert all(head.is_displayed() for head in heads)


@pytest.mark.parametrize("name", ["audit", "subgroups", *KINDS])
def test_the_tab_key_reaches_the_findings_first_and_everything_in_sight(
    driver: Any, pages: dict[str, Path], name: str
) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(driver, pages[name])
    press(driver, Keys.TAB)
    assert driver.execute_script("return document.activeElement.className") == "skip"
    seen = []
    for _ in range(40):
        press(driver, Keys.TAB)
        where = driver.execute_script("""
        const one = document.activeElement;
        if (one === document.body) return null;
        const box = one.getBoundingClientRect();
        return [one.id || one.tagName, box.width > 0 && box.height > 0,
          getComputedStyle(one).outlineStyle];
        """)
        if where is None:
            break
        seen.append(where)
    assert seen[0][0] == "theme"
    assert all(is_shown for _, is_shown, _ in seen)


def test_all_kinds_of_pages_are_light_on_paper(driver: Any, pages: dict[str, Path]) -> None:
    for name in ("subgroups", *KINDS):
        open_page(driver, pages[name])
        find(driver, "#theme").click()
        emulate(driver, media="print", theme="dark")
        assert not find(driver, "#theme").is_displayed()
        assert find(driver, "table").is_displayed()
        colour = "return getComputedStyle(document.documentElement).backgroundColor"
        assert driver.execute_script(colour) == "rgb(255, 255, 255)"
        emulate(driver)


@pytest.mark.parametrize("name", ["tracking", "regret"])
def test_texts_of_charts_are_large_enough_on_a_phone(
    driver: Any, pages: dict[str, Path], name: str
) -> None:
    open_page(driver, pages[name], width=390)
    sizes = driver.execute_script("""
    return [...document.querySelectorAll("svg.series text")].filter((one) =>
      getComputedStyle(one).display !== "none").map((one) =>
      parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a)
    """)
    assert min(sizes) >= 9


def test_commands_break_between_words(driver: Any, pages: dict[str, Path]) -> None:
    open_page(driver, pages["drift"], width=390)
    heights = driver.execute_script("""
    return [...document.querySelectorAll("pre .word")].map((one) => one.getClientRects().length)
    """)
    assert heights
    assert set(heights) == {1}
