"""The page of all studies: a fixed order, links that lead somewhere, failures that are named."""

from __future__ import annotations

import doctest
import re
from argparse import Namespace
from pathlib import Path

import pytest

import published_page
import studies
from study_sources import note_time

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
from epiloss import Estimate
from protocol import Line, Section, options, write_section
from study_verdicts import Statement
given = options("x").parse_args()
images = given.images
images.mkdir(parents=True, exist_ok=True)
(images / "{name}.png").write_bytes(b"png")
for title in ("Z of {name}", "A of {name}"):
    text = f"quick {{given.quick}}, seed {{given.seed}}"
    one, other = Estimate(0.2, low=0.1, high=0.3), Estimate(0.4, low=0.25, high=0.5)
    lines = [Line("x", 9, 0.5, one, one, one, two, one, one, 0.1) for two in (one, other)]
    claim = Statement(f"what {{title}} says", "data", "2 of 2", "holds")
    section = Section(title, lines, text, [images / "{name}.png"], claims=[claim])
    write_section(section, given.output)
sys.exit({code})
"""


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write scripts that stand for the studies, and put what they import on their path."""
    monkeypatch.setattr(published_page, "page", lambda images, _folder: f"# Printed, {images.name}\n")
    monkeypatch.setenv("PYTHONPATH", str(studies.EXPERIMENTS))
    folder = tmp_path / "scripts"
    folder.mkdir()
    for name in studies.STUDIES:
        code = int(name == "ratings")
        text = SCRIPT.format(name=name, code=code)
        (folder / f"{name}.py").write_text(text)
    return folder


def test_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(studies).failed == 0


def test_sections_are_joined_in_order_and_a_failure_is_named(
    scripts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    common = ["--output", str(tmp_path / "out"), "--cache", str(tmp_path / "cache"), "--seed", "7"]
    images, page = tmp_path / "docs" / "images", tmp_path / "docs" / "studies.md"
    arguments = [*common, "--images", str(images), "--page", str(page)]
    assert studies.main(arguments, scripts) == 1
    text = page.read_text()
    titles = re.findall(r"^- \[(.*)\]\(studies/(.*)\.md\)$", text, re.MULTILINE)[1:]
    assert [title for title, _ in titles] == [
        f"{letter} of {name}" for name in studies.STUDIES for letter in "ZA"
    ]
    assert "| what A of nlp says | data | 2 of 2 | holds |\n" in text
    for how, n in (("trees", 8), ("twins", 16)):
        counted = f"by {how}, GL' lies within the 95% interval of GL in {n} of 16 rows"
        assert f"| 8 studies together | {counted}" in text
    assert "Of 13 rows, the statement holds in 9, holds in part in 1, does not hold in 0, cannot" in text
    for title, slug in titles:
        own = (page.parent / "studies" / f"{slug}.md").read_text()
        assert own.startswith(f"# {title}\n")
        assert f"](../images/{title.split()[-1]}.png)" in own
        assert "quick False, seed 7" in own
        assert f"\nstudies/{slug}\n" in text  # in the table of contents
    assert (page.parent / "studies" / "published.md").read_text() == "# Printed, images\n"
    assert text.rstrip().endswith("Failed: `experiments/ratings.py`.")
    assert "ratings: failed in" in capfd.readouterr().err


def test_a_quick_run_leaves_the_documentation_alone(
    scripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    common = ["--quick", "--output", "out", "--cache", "cache", "--studies", "examples", "nlp"]
    assert studies.main(common, scripts) == 0
    text = (tmp_path / "out" / "studies.md").read_text()
    assert text.index("Z of nlp") < text.index("Z of examples")  # the page's order, not the caller's
    own = (tmp_path / "out" / "studies" / "z-of-nlp.md").read_text()
    assert "](../images/nlp.png)" in own
    assert "quick True, seed 0" in own
    assert not (tmp_path / "docs").exists()


def test_what_an_earlier_run_left_is_not_shown(scripts: Path, tmp_path: Path) -> None:
    old = tmp_path / "out" / "nlp" / "old.json"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    common = ["--quick", "--output", str(tmp_path / "out"), "--cache", str(tmp_path)]
    assert studies.main([*common, "--studies", "nlp"], scripts) == 0
    assert not old.exists()


def test_the_times_tell_what_the_cache_took() -> None:
    runs = [
        studies.Run("vision", failed=False, seconds=90, cpu=80, caching=60, sections=()),
        studies.Run("nlp", failed=False, seconds=30, cpu=20, caching=0, sections=()),
    ]
    empty = studies.times(runs, cached=60)
    assert "| `experiments/vision.py` | 1 min 30 s | 1 min 20 s | 1 min 0 s |\n" in empty
    assert "| together | 2 min 0 s | 1 min 40 s | 1 min 0 s |\n" in empty
    assert "The cache was empty at the start" in empty
    full = studies.times(runs, cached=360)
    assert "took 5 min 0 s of CPU time to fill: from an empty cache, all this takes 6 min 40 s" in full


def test_a_run_notes_its_cpu_time_and_what_it_adds_to_the_cache(tmp_path: Path) -> None:
    script = """
import sys, time
from pathlib import Path
from study_sources import note_time
while time.process_time() < 0.5:
    pass
note_time(Path(sys.argv[sys.argv.index("--cache") + 1]) / "new.npz", 0.25)
"""
    (tmp_path / "nlp.py").write_text(
        f"import sys\nsys.path.insert(0, {str(studies.EXPERIMENTS)!r})\n{script}"
    )
    note_time(tmp_path / "old.npz", 7.0)
    given = Namespace(output=tmp_path / "out", cache=tmp_path, images=tmp_path, seed=0, quick=False)
    found = studies.run("nlp", given, tmp_path)
    assert not found.failed
    assert found.caching == pytest.approx(0.25)
    assert 0.5 <= found.cpu < 60


@pytest.mark.parametrize(
    ("name", "start", "end"),
    [("docs/evidence.md", "## Three findings", None), ("README.md", "## Evidence", "## Documentation")],
)
def test_what_is_said_of_the_studies_is_quoted_from_their_pages(
    name: str, start: str, end: str | None
) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    section = text[text.index(start) : None if end is None else text.index(end)]
    pages = [ROOT / "docs" / "studies.md", *sorted((ROOT / "docs" / "studies").glob("*.md"))]
    page = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    quoted = [*re.findall(r"\d\.\d+", section), *re.findall(r"\d+ of \d+", section)]
    assert len(quoted) >= 2
    assert [number for number in quoted if number not in page] == []


def test_the_count_of_the_page_of_evidence_is_that_of_the_studies() -> None:
    section = " ".join((ROOT / "docs" / "evidence.md").read_text(encoding="utf-8").split())
    words = "in 80 of 80 estimates"
    assert f"({words} the interval does not lie above it)" in section
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    assert f"the interval does not lie above the measured loss {words}" in page
