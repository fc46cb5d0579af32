"""The paper's text study: BART on the topics of Yahoo Answers, five of which it learned.

The network is joeddav/bart-large-mnli-yahoo-answers, whose card names the five topics it was trained
on and the hypothesis. As in the code that the paper's authors published (aperezlebel/beyond_calibration,
``src/networks/yahoo.py``), the text is the title of a question of the test file, each title is paired
with each topic of its group, the score is the softmax over contradiction and entailment, and the
features are the input of ``classification_head.out_proj``. Neither weights nor questions are available
from package registries, so both must be passed as folders.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minilm import load_torch
from nlp_zeroshot import Pairs, paired, scored
from protocol import Line, MissingError, Section, measure
from published_distance import agreement, distances
from published_values import printed_topics
from study_claims import kept_by_recalibration
from study_pictures import bars, diagrams
from study_sources import kept

TITLE = "Zero-shot topics of Yahoo Answers (BART)"
TOPICS = (  # in the order of the classes 1 to 10 of the files
    "Society & Culture",
    "Science & Mathematics",
    "Health",
    "Education & Reference",
    "Computers & Internet",
    "Sports",
    "Business & Finance",
    "Entertainment & Music",
    "Family & Relationships",
    "Politics & Government",
)
SEEN = (0, 2, 4, 6, 8)
UNSEEN = (1, 3, 5, 7, 9)
LONGEST = 1_024


def read_questions(folder: Path) -> tuple[list[str], NDArray[np.int64]]:
    """Return the titles of the test questions and their topics, of a ``.csv`` or ``.parquet`` file."""
    path = folder / "test.csv"
    if path.exists():
        csv.field_size_limit(sys.maxsize)
        with path.open(newline="", encoding="utf-8") as stream:
            rows = [row for row in csv.reader(stream, doublequote=True) if row and row[0].isdigit()]
        if not rows or not all(len(row) == 4 and 1 <= int(row[0]) <= 10 for row in rows):
            raise MissingError(
                f"{path} must have rows of a class from 1 to 10, title, question and answer."
            )
        return [row[1] for row in rows], np.array([int(row[0]) - 1 for row in rows])
    files = sorted(folder.rglob("test-*.parquet"))
    if not files:
        raise MissingError(
            f"the questions of Yahoo Answers are not in {folder}: put test.csv there (class, title, "
            "question, answer), or test-*.parquet of the data set yahoo_answers_topics."
        )
    from pyarrow import parquet

    tables = [parquet.read_table(file, columns=["question_title", "topic"]) for file in files]
    titles = [title for one in tables for title in one["question_title"].to_pylist()]
    return titles, np.concatenate([one["topic"].to_numpy() for one in tables]).astype(np.int64)


def group(
    titles: Sequence[str], topics: NDArray[np.int64], chosen: Sequence[int], most: int | None, seed: int
) -> Pairs:
    """Pair the questions of some topics, up to ``most`` of each topic, with these topics."""
    generator = np.random.default_rng(seed)
    rows: list[int] = []
    for topic in chosen:
        rows += np.sort(generator.permutation(np.flatnonzero(topics == topic))[:most]).tolist()
    places = [list(chosen).index(topics[row]) for row in rows]
    return paired([titles[row] for row in rows], places, [TOPICS[topic] for topic in chosen])


def load_bart(folder: Path) -> tuple[Any, Any, Any]:
    """Return torch, the tokenizer and the network of a folder; nothing is downloaded."""
    torch, transformers = load_torch()
    if not (folder / "config.json").exists():
        raise MissingError(
            f"the weights of BART are not in {folder}: put the files of "
            "joeddav/bart-large-mnli-yahoo-answers there (config.json, weights, tokenizer)."
        )
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        str(folder), local_files_only=True
    )
    return torch, tokenizer, model.eval()


def columns(model: Any) -> tuple[int, int]:
    """Return the outputs for contradiction and entailment, as the network names them."""
    names = {str(name).lower(): int(place) for place, name in model.config.id2label.items()}
    if "contradiction" not in names or "entailment" not in names:
        return 0, 2  # the order of MNLI
    return names["contradiction"], names["entailment"]


def predictions(bart: Path, pairs: Pairs) -> dict[str, NDArray[Any]]:
    """Return the scores of pairs, and the inputs of the last layer."""
    torch, tokenizer, model = load_bart(bart)
    last = model.classification_head.out_proj
    longest = min(LONGEST, int(model.config.max_position_embeddings))
    return scored(torch, model, last, tokenizer, pairs, columns(model), longest)


def lines_of(
    cache: Path, yahoo: Path, bart: Path, seed: int, most: int | None, paper: bool
) -> list[tuple[Line, Any]]:
    """Measure the network on the seen and on the unseen topics."""
    titles, topics = read_questions(yahoo)
    found = []
    for name, chosen in (("seen", SEEN), ("unseen", UNSEEN)):
        pairs = group(titles, topics, chosen, most, seed)
        path = cache / "yahoo" / f"{bart.resolve().name}-{name}-{len(pairs.y)}-{seed}.npz"
        arrays = kept(path, ("p", "X"), partial(predictions, bart, pairs))
        found.append(
            measure(
                f"five {name} topics",
                pairs.y,
                arrays["p"].astype(float),
                arrays["X"].astype(float),
                seed=seed,
                task="binary",
                clusters=pairs.clusters,
                published=printed_topics(name).by_column if paper else None,
                display={"title": np.array(pairs.texts), "hypothesis": np.array(pairs.hypotheses)},
            )
        )
    return found


def study(
    cache: Path, images: Path, seed: int, yahoo: Path | None, bart: Path | None, most: int | None
) -> Section:
    """Measure, draw the figures, and return the section."""
    if yahoo is None or bart is None:
        raise MissingError("the study of Yahoo Answers needs --yahoo FOLDER and --bart FOLDER.")
    found = lines_of(cache, yahoo, bart, seed, most, paper=True)
    lines = [line for line, _ in found]
    pictures = [
        bars(lines, images / "yahoo-losses.png", "BART on Yahoo Answers: seen and unseen topics"),
        diagrams([(line.name, line, one) for line, one in found], images / "yahoo-diagrams.png"),
    ]
    return Section(TITLE, lines, paragraph(lines), pictures, distances(lines))


def paragraph(lines: Sequence[Line]) -> str:
    """Return how far the results are from the paper's."""
    return (
        f"The paper's study with its network and data. {agreement(lines)}. "
        f"{kept_by_recalibration(lines)}. Intervals are clustered by question, because each is paired "
        f"with five topics."
    )


def tiny_study(folder: Path, seed: int) -> Section:
    """Run the whole study with a network of random weights, as a smoke test."""
    from nlp_tiny import make_bart, make_questions

    make_questions(folder / "yahoo", 30, seed)
    make_bart(folder / "bart", folder / "yahoo" / "test.csv", seed)
    found = lines_of(folder, folder / "yahoo", folder / "bart", seed, None, paper=False)
    text = (
        "A BART of random weights on made-up questions: this shows that the chain from files to the "
        "table runs, and nothing about Yahoo Answers."
    )
    return Section(f"{TITLE}, tiny and random", [line for line, _ in found], text, [])
