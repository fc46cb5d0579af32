"""Answers of a language model to multiple-choice questions, audited as its log.

The questions are definitions of WordNet without their last word, with four words to choose from. A
small language model learns to complete definitions: the embeddings of the words are averaged, and a
softmax over its vocabulary predicts the last one. The log-likelihoods of the choices are written in the
format of lm-evaluation-harness, and ``epiloss.audit_table`` reads the file.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import epiloss
from epiloss._saving import write_text
from epiloss.integrations.extraction.frameworks import torch_module
from nlp_wordnet import UNSEEN
from protocol import Line, Section, measure_by, progress
from study_claims import kept_by_recalibration, usual_claims
from study_pictures import bars
from study_sources import debian_package, kept

TITLE = "Answers of a language model (log-likelihoods of choices)"
DATA = "answers of a language model"
WIDTH, EPOCHS, RATE, BATCH = 64, 6, 3e-3, 256
CHOICES = 4
LEAST, SHORTEST = 20, 4  # definitions that a word must end to be a choice, and words of a question
SIZES = {"learning": 24_000, "seen": 5_000, "unseen": 5_000}
QUICK_SIZES = {"learning": 8_000, "seen": 1_200, "unseen": 1_200}


@dataclass(frozen=True)
class Definition:
    """A text without its last word, that word, and the number of its lexicographer's file."""

    text: str
    last: str
    topic: int


@dataclass(frozen=True)
class Question:
    """A definition with words to choose from, and the position of the correct one."""

    text: str
    choices: tuple[str, ...]
    right: int
    topic: int


def definitions(listing: str) -> list[Definition]:
    r"""Return the nouns' definitions that are long enough, without examples of use, each text once.

    Examples
    --------
    >>> definitions("01503061 05 n 01 bird 0 000 | an animal with two Wings; \"it flies\"\n")
    [Definition(text='an animal with two', last='wings', topic=5)]
    """
    found: dict[str, Definition] = {}
    for line in listing.splitlines():
        head, _, gloss = line.partition(" | ")
        text, _, last = gloss.partition(";")[0].strip().rpartition(" ")
        if not line.startswith(" ") and last.isalpha() and len(tokens(text)) >= SHORTEST:
            found.setdefault(text, Definition(text, last.lower(), int(head.split(" ", 2)[1])))
    return list(found.values())


def divided(
    known: Sequence[Definition], sizes: Mapping[str, int], seed: int
) -> tuple[list[Definition], dict[str, list[Question]]]:
    """Return definitions to learn from, and questions on the same topics and on others."""
    generator = np.random.default_rng(seed)
    order = [known[place] for place in generator.permutation(len(known))]
    seen = [one for one in order if one.topic not in UNSEEN]
    learning = seen[: sizes["learning"]]
    counts = Counter(one.last for one in learning)
    words = sorted(word for word, n in counts.items() if n >= LEAST)
    held_out = {
        "seen": seen[sizes["learning"] :],
        "unseen": [one for one in order if one.topic in UNSEEN],
    }
    weights = np.array([counts[word] for word in words], float)
    questions = {
        name: [
            asked(one, words, weights / weights.sum(), generator)
            for one in some
            if counts[one.last] >= LEAST
        ][: sizes[name]]
        for name, some in held_out.items()
    }
    return learning, questions


def asked(
    one: Definition, words: Sequence[str], shares: NDArray[np.float64], generator: np.random.Generator
) -> Question:
    """Mix the correct word with others, drawn by how often they end definitions."""
    drawn = generator.choice(len(words), size=4 * CHOICES, p=shares)
    wrong = [words[place] for place in dict.fromkeys(drawn.tolist()) if words[place] != one.last]
    right = int(generator.integers(CHOICES))
    choices = wrong[: CHOICES - 1]
    return Question(one.text, (*choices[:right], one.last, *choices[right:]), right, one.topic)


def tokens(text: str) -> list[str]:
    """Return the words of a text."""
    return re.findall(r"[a-z']+", text.lower())


def vocabulary(texts: Iterable[str]) -> dict[str, int]:
    """Return the words of three texts or more, numbered by their first appearance in every process."""
    counts = Counter(word for text in texts for word in dict.fromkeys(tokens(text)))
    return {word: place for place, word in enumerate(word for word, n in counts.items() if n >= 3)}


class LanguageModel:
    """A model that predicts the last word from the mean embedding of the words before it."""

    def __init__(self, learning: Sequence[Definition], seed: int) -> None:
        self._torch = torch_module()
        self._torch.set_num_threads(1)
        self._words = vocabulary(one.text for one in learning)
        ends = dict.fromkeys(one.last for one in learning)
        self._ends = {word: place for place, word in enumerate(ends)}
        self._torch.manual_seed(seed)
        nn = self._torch.nn
        self._embed = nn.EmbeddingBag(len(self._words) + 1, WIDTH, mode="mean")
        self._next = nn.Linear(WIDTH, len(self._ends))
        self._learn(learning, seed)

    def _context(self, texts: Sequence[str]) -> Any:
        rows = [[self._words[w] for w in tokens(text) if w in self._words] for text in texts]
        rows = [row or [len(self._words)] for row in rows]
        starts = np.cumsum([0, *(len(row) for row in rows[:-1])])
        flat = np.concatenate([np.array(row) for row in rows])
        return self._embed(self._torch.from_numpy(flat), self._torch.from_numpy(starts))

    def _learn(self, learning: Sequence[Definition], seed: int) -> None:
        generator = np.random.default_rng(seed)
        parameters = [*self._embed.parameters(), *self._next.parameters()]
        optimiser = self._torch.optim.Adam(parameters, lr=RATE)
        for _ in progress(range(EPOCHS), "training the language model"):
            for rows in np.array_split(generator.permutation(len(learning)), -(-len(learning) // BATCH)):
                some = [learning[row] for row in rows]
                target = self._torch.tensor([self._ends[one.last] for one in some])
                logits = self._next(self._context([one.text for one in some]))
                optimiser.zero_grad()
                self._torch.nn.functional.cross_entropy(logits, target).backward()
                optimiser.step()

    def log_likelihoods(self, questions: Sequence[Question]) -> NDArray[np.float64]:
        """Return log P(word | definition) of each choice (n, choices)."""
        with self._torch.inference_mode():
            logits = self._next(self._context([one.text for one in questions]))
            every = self._torch.log_softmax(logits.double(), dim=1).numpy()
        places = np.array([[self._ends[word] for word in one.choices] for one in questions])
        return np.take_along_axis(every, places, axis=1)


def sample(number: int, one: Question, likelihoods: NDArray[np.float64]) -> dict[str, Any]:
    """Return a question and its answer as lm-evaluation-harness logs them."""
    best = int(likelihoods.argmax())
    pairs = [[f"{value:.6f}", str(place == best)] for place, value in enumerate(likelihoods)]
    return {
        "doc_id": number,
        "doc": {"question": one.text, "choices": list(one.choices), "words": len(tokens(one.text))},
        "target": str(one.right),
        "arguments": [[one.text, f" {word}"] for word in one.choices],
        "resps": [[pair] for pair in pairs],
        "filtered_resps": pairs,
        "filter": "none",
        "acc": float(best == one.right),
    }


def write_samples(
    questions: Sequence[Question], likelihoods: NDArray[np.float64], path: Path
) -> tuple[Path, float]:
    """Write the log of all answers, and return its file and the accuracy."""
    rows = [
        sample(k, one, values)
        for k, (one, values) in enumerate(zip(questions, likelihoods, strict=True))
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    return path, float(np.mean([row["acc"] for row in rows]))


def study(cache: Path, images: Path, seed: int, quick: bool) -> Section:
    """Train the model, ask the questions, audit the log and return the section."""
    sizes = QUICK_SIZES if quick else SIZES
    listing = debian_package("wordnet-base", cache) / "usr" / "share" / "wordnet" / "data.noun"
    learning, questions = divided(definitions(listing.read_text(encoding="utf-8")), sizes, seed)
    folder = cache / "answers"

    def answered() -> dict[str, NDArray[Any]]:
        model = LanguageModel(learning, seed)
        return {name: model.log_likelihoods(some) for name, some in questions.items()}

    counts = [len(learning), *(len(some) for some in questions.values())]
    n = "-".join(map(str, counts))
    found = kept(folder / f"log-likelihoods-{n}-{seed}.npz", list(questions), answered)
    lines, titles = [], {"seen": "topics it learned from", "unseen": "topics it never saw"}
    for name, some in questions.items():
        path, accuracy = write_samples(some, found[name], folder / f"samples_{name}-{n}-{seed}.jsonl")
        audited = partial(epiloss.audit_table, path, random_state=seed)
        lines.append(measure_by(titles[name], audited, known=accuracy)[0])
    picture = bars(lines, images / "answers-losses.png", "A language model's answers")
    text = paragraph(lines, len(learning))
    claims = usual_claims(lines, DATA, "The grouping loss is larger on topics that a model has not seen")
    return Section(TITLE, lines, text, [picture], claims=claims)


def paragraph(lines: Sequence[Line], n_learning: int) -> str:
    """Return the paragraph on the results."""
    seen, unseen = lines
    return (
        f"Each question is a definition of WordNet without its last word, with {CHOICES} words to "
        f"choose from. The language model is small and was trained here on {n_learning:,} definitions. "
        f"By chance, {1 / CHOICES:.2f} of its answers would be correct; {seen.accuracy:.3f} are correct "
        f"on topics that it learned from, and {unseen.accuracy:.3f} on others. Its log-likelihoods are "
        f"written in the format of lm-evaluation-harness, which `epiloss audit samples_seen.jsonl` "
        f"reads: scores are the softmax over the choices, and features are the words of the question. "
        f"{kept_by_recalibration(lines)}. The paper has no such study, so only the pattern can be "
        f"compared."
    )
