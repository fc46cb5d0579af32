"""The pictures of the documentation: all there, light, and never half-written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from matplotlib import pyplot

import epiloss
import pictures

ROOT = Path(__file__).parents[2]
matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def pictures_are_closed() -> Iterator[None]:
    yield
    pyplot.close("all")


def test_a_picture_is_replaced_wholly_or_not_at_all(tmp_path: Path) -> None:
    class Broken:
        def savefig(self, path: str, **_: Any) -> None:
            Path(path).write_text("half")
            raise OSError("full")

    path = tmp_path / "picture.png"
    path.write_text("old")
    with pytest.raises(OSError, match="full"):
        pictures.save(Broken(), path)
    assert path.read_text() == "old"
    pictures.save(pyplot.figure(), path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_figure_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        figure, ax = pyplot.subplots()
        ax.plot([0, 1])
        pictures.save(figure, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_every_picture_of_the_documentation_is_there_light_and_shown() -> None:
    folder = ROOT / "docs" / "images"
    assert set(pictures.PICTURES) <= {path.stem for path in folder.glob("*.png")}
    pages = [ROOT / "README.md", ROOT / "docs" / "conf.py", *(ROOT / "docs").glob("*.md")]
    texts = "".join(page.read_text(encoding="utf-8") for page in pages)
    for path in folder.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG"), path
        assert path.stat().st_size < (150_000 if path.stem in pictures.PICTURES else 300_000), path
        assert path.name in texts, path


def test_every_display_is_found_and_none_loads_matplotlib() -> None:
    for name in epiloss.plot.__all__:
        assert getattr(epiloss.plot, name).__name__ == name
    code = (
        "import sys, epiloss\nplot = epiloss.plot\n"
        "for name in plot.__all__: getattr(plot, name)\n"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="PieDisplay"):
        epiloss.plot.PieDisplay  # noqa: B018
