"""The text studies: what they read, what they make of it, and what they say when it is missing."""

from __future__ import annotations

import doctest
import json
import shutil
import tarfile
import zipfile
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nlp
import nlp_lid
import nlp_wordnet
import nlp_yahoo
import nlp_zeroshot
import protocol
import study_pictures
import study_sources
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


@pytest.mark.parametrize("module", [nlp_lid, nlp_wordnet, nlp_zeroshot])
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
    texts = [vars(text) for text in some_texts(300)]
    (folder / "texts-300-0.json").write_text(json.dumps(texts), encoding="utf-8")
    section = nlp_lid.study(tmp_path, tmp_path / "images", 0, True)
    assert [line.n for line in section.lines] == [300] * 4
    called = model.calls
    assert called == 1200
    again = [line for line, _ in nlp_lid.audits(tmp_path, 0, True)]
    assert model.calls == called
    assert nlp_lid.paragraph(again) == section.text
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
        study_sources.pip_download("no-such-package==1", tmp_path, "x.whl")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(MissingError, match="apt-get, which is not here"):
        study_sources.apt_lists(tmp_path)
    with pytest.raises(MissingError, match="Debian package"):
        study_sources.debian_package("wordnet-base", tmp_path)


def test_what_is_in_the_cache_is_not_downloaded(tmp_path: Path) -> None:
    path = tmp_path / "packages" / "x.whl"
    path.parent.mkdir()
    path.write_bytes(b"here")
    assert study_sources.pip_download("no-such-package==1", tmp_path, "x.whl") == path


def test_archives_are_read_by_member_and_cannot_write_elsewhere(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pack/model/a.txt", "a")
        archive.writestr("pack/model/deeper/b.txt", "b")
        archive.writestr("pack/model/../../escaped.txt", "c")
    folder = study_sources.wheel_members(wheel, "pack/model", tmp_path / "out")
    assert [path.name for path in folder.iterdir()] == ["a.txt"]
    with tarfile.open(tmp_path / "x.tar", "w") as made:
        made.add(wheel, "deep/x.whl")
    with tarfile.open(tmp_path / "x.tar") as archive_:
        assert study_sources.tar_member(archive_, "x.whl") == wheel.read_bytes()
        with pytest.raises(MissingError, match=r"has no y\.whl"):
            study_sources.tar_member(archive_, "y.whl")


def test_arrays_are_kept_without_pickle(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.npz"
    made = study_sources.kept(path, ("a",), lambda: {"a": np.arange(3)})
    again = study_sources.kept(path, ("a",), lambda: pytest.fail("computed again"))
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
        protocol.Line("b", 10, 0.8, one, one, two, two, two, two, 0.1),
    ]
    text = nlp_lid.paragraph(lines)
    assert "GL rises from 0.0100 [0.0080, 0.0120] (a) to 0.0200 [0.0180, 0.0220] (b)" in text
    assert "GL falls from 0.0200" in nlp_lid.paragraph(lines[::-1])
    assert "in 1 of 2 rows by trees and in 1 of 2 by twins" in text


def test_losses_that_only_some_lines_have_are_not_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="draws")
    one = Estimate(0.01, stderr=0.001, low=0.008, high=0.012)
    lines = [
        protocol.Line("a", 10, 0.9, one, one, one, one, one, one, 0.1),
        protocol.Line("few rows", 10, 0.8, one, one, one, one, one, None, 0.1),
    ]
    assert [kind.known(lines[1]) for kind in study_pictures.KINDS] == [True, False, True]
    assert study_pictures.bars(lines, tmp_path / "losses.png", "some").stat().st_size > 5_000


@pytest.mark.parametrize(("n", "highest"), [(2, 4), (27, 12)])
def test_the_picture_of_many_networks_is_no_higher_than_a_page(
    n: int, highest: float, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="draws")
    image = pytest.importorskip("PIL.Image", reason="reads the picture")
    loss = Estimate(0.01, stderr=0.001, low=0.008, high=0.012)
    lines = [
        protocol.Line(f"network {k}", 10, 0.9, loss, loss, loss, loss, None, None, 0.1) for k in range(n)
    ]
    path = study_pictures.bars(lines, tmp_path / "losses.png", "many")
    with image.open(path) as opened:
        assert opened.height < highest * study_pictures.RESOLUTION


def test_every_text_is_paired_with_every_topic_of_its_group() -> None:
    pairs = nlp_zeroshot.paired(["a", "b", "c"], [2, 0, 1], ["x", "y", "z"])
    assert pairs.y.reshape(3, 3).sum(axis=1).tolist() == [1, 1, 1]
    assert pairs.texts[3:6] == ("b", "b", "b")
    assert pairs.hypotheses[:3] == (
        "This text is about x.",
        "This text is about y.",
        "This text is about z.",
    )
    assert pairs.y[2] == pairs.y[3] == pairs.y[7] == 1


def test_glosses_of_learning_and_testing_are_others() -> None:
    numbers = [*nlp_wordnet.SEEN, *nlp_wordnet.UNSEEN]
    glosses = {number: [f"gloss {number} {k}" for k in range(60)] for number in numbers}
    parts = nlp_wordnet.sampled(glosses, nlp_wordnet.QUICK_SIZES, seed=0)
    told = {name: set(pairs.texts) for name, pairs in parts.items()}
    assert not told["learning"] & told["seen"]
    assert not told["seen"] & told["unseen"]
    assert len(told["seen"]) == 100
    for name, pairs in parts.items():
        assert pairs.y.mean() == pytest.approx(0.2)
        topics = nlp_wordnet.UNSEEN if name == "unseen" else nlp_wordnet.SEEN
        place = {f"This text is about {topic}.": number for number, topic in topics.items()}
        holds = [
            f"gloss {place[hypothesis]} " in text
            for text, hypothesis in zip(pairs.texts, pairs.hypotheses, strict=True)
        ]
        assert holds == (pairs.y == 1).tolist()
    again = nlp_wordnet.sampled(glosses, nlp_wordnet.QUICK_SIZES, seed=0)
    assert again["learning"].texts == parts["learning"].texts


def test_a_hypernym_is_a_word_of_the_topics_seen_and_names_no_other() -> None:
    listing = [
        "00000001 05 n 01 water_bird 0 000 | it swims",
        "00000002 20 n 01 tree 0 000 | it grows",
        "00000003 06 n 02 plant 0 works 0 000 | it makes things",
        "00000004 05 n 01 duck 0 003 @ 00000001 n 0000 ~ 00000005 n 0000 | it quacks",
        "00000005 06 n 01 bonsai 0 002 @ 00000002 n 0000 @ 00000001 n 0000 | in a pot",
        "00000006 06 n 01 mill 0 001 @ 00000003 n 0000 | it grinds",
    ]
    assert nlp_wordnet.parsed("\n".join(listing)) == {
        5: {"it swims": None, "it quacks": "water bird"},
        20: {"it grows": None},
        6: {"it makes things": None, "in a pot": "water bird", "it grinds": None},
    }


def test_glosses_are_paired_with_their_hypernym_and_with_those_of_others() -> None:
    texts = [f"gloss {k}" for k in range(40)]
    pairs = nlp_zeroshot.paired(texts, [k % 2 for k in range(40)], ["x", "y"])
    known = {text: f"word {k}" for k, text in enumerate(texts) if k % 4}
    made = nlp_wordnet.with_hypernyms(pairs, {**known, "gloss 0": None}, seed=0)
    assert made.texts[:80] == pairs.texts
    assert len(made.y) == 80 + 30 * (1 + nlp_wordnet.WRONG)
    for text, hypothesis, holds, cluster in list(
        zip(made.texts, made.hypotheses, made.y, made.clusters, strict=True)
    )[80:]:
        assert holds == (hypothesis == f"This text is about {known[text]}.")
        assert text == texts[cluster]
    assert len({*zip(made.texts, made.hypotheses, strict=True)}) == len(made.y)  # no pair twice
    again = nlp_wordnet.with_hypernyms(pairs, known, seed=0)
    assert again.hypotheses == made.hypotheses


def test_batches_hold_every_row_once_and_texts_of_like_length() -> None:
    generator = np.random.default_rng(0)
    texts = ["x" * int(generator.integers(1, 200)) for _ in range(1_000)]
    batches = nlp_wordnet.batches_of(texts, seed=0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(1_000))
    lengths = [[len(texts[row]) for row in rows] for rows in batches]
    assert max(len(rows) for rows in batches) <= 2 * nlp_wordnet.BATCH
    assert np.mean([np.ptp(some) for some in lengths]) < 30  # of 199
    means = [np.mean(some) for some in lengths]
    assert means != sorted(means)


def test_seen_and_unseen_topics_are_all_ten() -> None:
    assert sorted(nlp_yahoo.SEEN + nlp_yahoo.UNSEEN) == list(range(10))
    assert {nlp_yahoo.TOPICS[k] for k in nlp_yahoo.SEEN} >= {"Health", "Business & Finance"}


def test_questions_are_read_from_csv_and_parquet(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"put test\.csv there"):
        nlp_yahoo.read_questions(tmp_path)
    (tmp_path / "test.csv").write_text('"5","why ""me""?","a\nb","c"\n"10","who, then?","",""\n')
    titles, topics = nlp_yahoo.read_questions(tmp_path)
    assert titles == ['why "me"?', "who, then?"]
    assert topics.tolist() == [4, 9]
    (tmp_path / "test.csv").write_text('"11","title","",""\n')
    with pytest.raises(MissingError, match="class from 1 to 10"):
        nlp_yahoo.read_questions(tmp_path)
    pyarrow = pytest.importorskip("pyarrow", reason="reads Parquet")
    parquet = pytest.importorskip("pyarrow.parquet", reason="reads Parquet")
    folder = tmp_path / "other" / "data"
    folder.mkdir(parents=True)
    columns = {"id": [1, 2], "topic": [4, 9], "question_title": ["a", "b"]}
    parquet.write_table(pyarrow.table(columns), folder / "test-00000-of-00001.parquet")
    titles, topics = nlp_yahoo.read_questions(tmp_path / "other")
    assert (titles, topics.tolist()) == (["a", "b"], [4, 9])


def test_a_group_has_only_its_topics_and_no_more_questions_than_asked_for() -> None:
    titles = [f"question {k}" for k in range(100)]
    topics = np.arange(100) % 10
    pairs = nlp_yahoo.group(titles, topics, nlp_yahoo.SEEN, 3, seed=0)
    assert len(pairs.y) == 5 * 3 * 5
    for text, hypothesis, holds in zip(pairs.texts, pairs.hypotheses, pairs.y, strict=True):
        topic = int(text.split()[1]) % 10
        assert topic in nlp_yahoo.SEEN
        assert (hypothesis == f"This text is about {nlp_yahoo.TOPICS[topic]}.") == holds


def test_folders_that_are_missing_are_told(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="needs --yahoo FOLDER and --bart FOLDER"):
        nlp_yahoo.study(tmp_path, tmp_path, 0, None, None, None)
    pytest.importorskip("torch", reason="the network needs torch")
    pytest.importorskip("transformers", reason="the network needs transformers")
    with pytest.raises(MissingError, match="weights of BART are not in"):
        nlp_yahoo.load_bart(tmp_path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_tiny_bart_goes_through_the_whole_chain(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the network needs torch")
    pytest.importorskip("transformers", reason="the network needs transformers")
    import nlp_tiny

    questions = nlp_tiny.make_questions(tmp_path / "yahoo", 12, seed=0)
    nlp_tiny.make_bart(tmp_path / "bart", questions, seed=0)
    titles, topics = nlp_yahoo.read_questions(tmp_path / "yahoo")
    pairs = nlp_yahoo.group(titles, topics, nlp_yahoo.UNSEEN, None, seed=0)
    found = nlp_yahoo.predictions(tmp_path / "bart", pairs)
    torch, tokenizer, model = nlp_yahoo.load_bart(tmp_path / "bart")
    assert nlp_yahoo.columns(model) == (0, 2)
    for row in (0, 7, 59):  # one at a time, without padding
        batch = tokenizer(pairs.texts[row], pairs.hypotheses[row], return_tensors="pt")
        batch.pop("token_type_ids", None)
        with torch.inference_mode():
            logits = model(**batch).logits[0]
            by_hand = float(torch.softmax(logits[[0, 2]], 0)[1])
            again = model.classification_head.out_proj(torch.from_numpy(found["X"][row]).float())
        assert found["p"][row] == pytest.approx(by_hand, abs=1e-4)
        assert again.numpy() == pytest.approx(logits.numpy(), abs=0.02)  # X is in half precision
    section = nlp_yahoo.study(
        tmp_path, tmp_path / "images", 0, tmp_path / "yahoo", tmp_path / "bart", None
    )
    assert [line.n for line in section.lines] == [300, 300]
    assert "of 2 rows, our 95% interval contains the printed CL" in section.text
    assert [line.published["accuracy"] for line in section.lines if line.published] == [0.882, 0.711]
    away = section.lines[1].accuracy - 0.711
    assert f"| five unseen topics | {away:+.3f} |" in section.extra
    assert len(list((tmp_path / "yahoo").glob("*.npz"))) == 2
    assert section.lines[1].accuracy == np.mean((found["p"] >= 0.5) == pairs.y)


def test_the_default_studies_follow_what_is_given() -> None:
    def names(**given: Any) -> list[str]:
        return nlp.chosen(Namespace(**{"study": None, "quick": False, "yahoo": None, **given}))

    assert names() == ["lid", "wordnet", "answers"]
    assert names(yahoo=Path("here")) == ["lid", "wordnet", "answers", "yahoo"]
    assert names(quick=True) == ["lid", "answers", "yahoo"]
    assert names(study=["wordnet"]) == ["wordnet"]
