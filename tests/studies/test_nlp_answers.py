"""Questions with choices: made of definitions, answered by a language model, audited as its log."""

from __future__ import annotations

import doctest
import json
from pathlib import Path

import numpy as np
import pytest

import epiloss
import nlp_answers
import nlp_words
from nlp_answers import Definition, Question
from nlp_zeroshot import paired

ANIMALS, PLANTS = 5, 20  # a topic to learn from, and one that is never seen


def known(n: int) -> list[Definition]:
    """Definitions whose last word their words tell."""
    generator = np.random.default_rng(0)
    ends = {"wings": "flies feathers air", "gills": "swims water sea", "legs": "runs fields fast"}
    ends |= {"roots": "grows soil deep", "petals": "blooms spring colour"}
    found = []
    for place in range(n):
        last = list(ends)[place % len(ends)]
        words = generator.choice([*ends[last].split(), "a", "the", "with"], 6)
        topic = PLANTS if place % 7 == 0 else ANIMALS
        found.append(Definition(" ".join(words) + f" {place}", last, topic))
    return found


def test_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(nlp_answers).failed == 0


def test_questions_have_the_right_word_once_and_topics_stay_apart() -> None:
    sizes = {"learning": 600, "seen": 100, "unseen": 100}
    learning, questions = nlp_answers.divided(known(1_500), sizes, seed=0)
    assert len(learning) == 600
    assert {one.topic for one in learning} == {ANIMALS}
    assert {one.topic for one in questions["unseen"]} == {PLANTS}
    asked = {one.text for some in questions.values() for one in some}
    assert not asked & {one.text for one in learning}
    for one in questions["seen"]:
        assert len(set(one.choices)) == nlp_answers.CHOICES
    places = np.bincount([one.right for one in questions["seen"]], minlength=nlp_answers.CHOICES)
    assert places.min() > 10  # of 25 expected: the right word is anywhere


def test_words_are_numbered_by_their_first_appearance_in_every_process() -> None:
    # in the order of a set, which differs between processes, one seed would give several models
    words = [f"{one}{other}" for one in "abcdefgh" for other in "klmnopqr"]
    texts = [" ".join(words)] * 3 + ["rare words"]
    assert list(nlp_answers.vocabulary(texts)) == words
    assert nlp_answers.vocabulary([" ".join(words[:2])] * 2) == {}


def test_the_language_model_learns_and_its_log_is_audited(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra 'torch'")
    learning, questions = nlp_answers.divided(
        known(2_500), {"learning": 1_200, "seen": 600, "unseen": 200}, seed=0
    )
    model = nlp_answers.LanguageModel(learning, seed=0)
    found = model.log_likelihoods(questions["seen"])
    assert (found < 0).all()
    path, accuracy = nlp_answers.write_samples(questions["seen"], found, tmp_path / "samples_x.jsonl")
    assert accuracy > 0.6  # 0.25 by chance
    result = epiloss.audit_table(path)
    assert result.n_samples == len(questions["seen"])
    assert result.task == "top-label"


def test_a_sample_is_written_as_the_harness_writes_it() -> None:
    one = Question("a bird with two", ("legs", "wings", "gills", "roots"), 1, ANIMALS)
    made = nlp_answers.sample(3, one, np.array([-2.0, -0.5, -4.0, -9.0]))
    assert json.loads(json.dumps(made)) == made
    assert made["filtered_resps"][1] == ["-0.500000", "True"]
    assert made["resps"][0] == [["-2.000000", "False"]]
    assert (made["target"], made["acc"]) == ("1", 1.0)
    assert made["arguments"][2] == ["a bird with two", " gills"]


def test_bags_of_words_know_topics_by_the_words_around_them() -> None:
    # glosses name their topic, so that words of a kind have like components
    animals = [f"animals with fur and legs {k}" for k in range(40)]
    plants = [f"plants with roots and leaves {k}" for k in range(40)]
    topics = [0] * 40 + [1] * 40
    pairs = paired([*animals, *plants], topics, ["animals", "plants"])
    words = nlp_words.Words([*animals, *plants], n_components=4)
    X = words.features(pairs)
    assert X.shape == (160, 6)
    alike = X[:, -2]
    assert alike[pairs.y == 1].min() > alike[pairs.y == 0].max()
    parts = dict.fromkeys(("learning", "seen", "unseen"), pairs)
    assert nlp_words.N_COMPONENTS > 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nlp_words.Words.__init__, "__defaults__", (4,))
        found = nlp_words.predictions(parts, [*animals, *plants])
    assert ((found["p_seen"] > 0.5) == pairs.y).mean() > 0.95
