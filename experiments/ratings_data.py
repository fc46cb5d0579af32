"""Texts with many ratings: VADER's four domains, and features of the texts.

Hutto and Gilbert (ICWSM 2014) had 15 or more people rate each of 23,703 texts from -4 to 4. A rating
above 0 is a positive label; with all of them, the share of positive labels of a text is nearly known.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss._typing import Floats
from study_sources import pip_download, tar_member

SOURCE = ("vaderSentiment==3.3.2", "vaderSentiment-3.3.2.tar.gz")
INSIDE = "hutto_ICWSM_2014.tar.gz"
DOMAINS = {
    "movies": "movieReviewSnippets",
    "tweets": "tweets",
    "Amazon": "amazonReviewSnippets",
    "New York Times": "nytEditorialSnippets",
}
PUNCTUATION = "!?.,;:'\"-()#@/"
N_COMPONENTS = 50  # of TF-IDF


@dataclass(frozen=True)
class Domain:
    """Texts with their labels (n, r), padded by NaN, and the documents of sentences."""

    name: str
    texts: tuple[str, ...]
    labels: Floats
    documents: NDArray[Any]
    n_dropped: int  # rows whose two files disagree

    def take(self, rows: NDArray[np.int64]) -> Domain:
        """Return some of the texts."""
        texts = tuple(self.texts[row] for row in rows)
        return Domain(self.name, texts, self.labels[rows], self.documents[rows], self.n_dropped)

    @property
    def clusters(self) -> NDArray[Any] | None:
        """The documents as clusters, if they have several sentences."""
        return None if len(set(self.documents.tolist())) == len(self.documents) else self.documents


def load(cache: Path) -> dict[str, Domain]:
    """Return the domains from the source archive of vaderSentiment."""
    flags = ("--no-binary", ":all:", "--no-build-isolation")
    path = pip_download(SOURCE[0], cache, SOURCE[1], *flags)
    with tarfile.open(path) as outer:
        packed = tar_member(outer, INSIDE)
    with tarfile.open(fileobj=io.BytesIO(packed)) as inner:
        return {
            name: parsed(
                name,
                tar_member(inner, f"{file}_GroundTruth.txt").decode("utf-8-sig"),
                tar_member(inner, f"{file}_anonDataRatings.txt").decode("utf-8-sig"),
            )
            for name, file in DOMAINS.items()
        }


def parsed(name: str, texts: str, ratings: str) -> Domain:
    """Join texts and ratings by their number, where both files give the same mean rating.

    They do not for 199 of the tweets: which text was rated there cannot be known, so these are left
    out.
    """
    rated = {}
    for line in ratings.splitlines():
        number, mean_text, _, listed = line.split("\t")[:4]
        rated[number] = float(mean_text), json.loads(listed)
    numbers, kept_texts, kept_ratings, dropped = [], [], [], 0
    for line in texts.splitlines():
        number, mean_text, text = line.split("\t", 2)
        mean, values = rated[number]
        if abs(mean - float(mean_text)) > 1e-4:
            dropped += 1
            continue
        numbers.append(number)
        kept_texts.append(text)
        kept_ratings.append(values)
    labels = np.full((len(numbers), max(map(len, kept_ratings))), np.nan)
    for row, values in enumerate(kept_ratings):
        labels[row, : len(values)] = np.asarray(values) > 0
    documents = np.array([number.split("_")[0] for number in numbers])
    return Domain(name, tuple(kept_texts), labels, documents, dropped)


def drawn(labels: Floats, generator: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
    """Return one label of each text, drawn at random, and the mean of its other labels.

    Examples
    --------
    >>> y, others = drawn(np.array([[1.0, 1.0, 1.0], [0.0, 0.0, np.nan]]), np.random.default_rng(0))
    >>> y.tolist(), others.tolist()
    ([1, 0], [1.0, 0.0])
    """
    count = (~np.isnan(labels)).sum(axis=1)
    place = generator.integers(0, count)
    y = labels[np.arange(len(labels)), place]
    return y.astype(np.int64), (np.nansum(labels, axis=1) - y) / (count - 1)


def surface(texts: tuple[str, ...]) -> Floats:
    """Return counts of characters, words, capitals and each sign of punctuation (n, 18)."""
    rows = [
        [len(text), len(text.split()), sum(map(str.isupper, text)), sum(map(str.isdigit, text))]
        + [text.count(sign) for sign in PUNCTUATION]
        for text in texts
    ]
    return np.array(rows, float)


def components(learning: tuple[str, ...], texts: Mapping[str, tuple[str, ...]]) -> dict[str, Floats]:
    """Return the leading components of TF-IDF, learned on some texts, for others by name."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    weigh = TfidfVectorizer(min_df=3, ngram_range=(1, 2), sublinear_tf=True)
    model = make_pipeline(weigh, TruncatedSVD(N_COMPONENTS, random_state=0)).fit(learning)
    return {name: np.asarray(model.transform(some), float) for name, some in texts.items()}
