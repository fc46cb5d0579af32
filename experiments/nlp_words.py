"""A bag-of-words baseline for whether a hypothesis holds of a text.

Texts and hypotheses are represented by the leading components of TF-IDF, learned on all glosses without
their topics. A logistic regression uses the products of both, component by component, and their
similarity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlp_zeroshot import Pairs

N_COMPONENTS = 64
PENALTY = 0.1  # C of the logistic regression, not tuned
NAME = "bag of words"


class Words:
    """Turns pairs of a text and a hypothesis into features."""

    def __init__(self, glosses: Sequence[str], n_components: int = N_COMPONENTS) -> None:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import Normalizer

        weigh = TfidfVectorizer(min_df=2, stop_words="english", sublinear_tf=True)
        lead = TruncatedSVD(n_components, random_state=0)
        self._model = make_pipeline(weigh, lead, Normalizer()).fit(list(glosses))

    def features(self, pairs: Pairs) -> NDArray[np.float64]:
        """Return products of components, their sum, and the share of the hypothesis in the text."""
        texts, hypotheses = (self._vectors(some) for some in (pairs.texts, pairs.hypotheses))
        products = texts * hypotheses
        shared = [
            len(set(text.lower().split()) & set(_topic(hypothesis).split()))
            / len(_topic(hypothesis).split())
            for text, hypothesis in zip(pairs.texts, pairs.hypotheses, strict=True)
        ]
        return np.column_stack([products, products.sum(axis=1), shared])

    def _vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        distinct, place = np.unique(np.array(texts, object).astype(str), return_inverse=True)
        return np.asarray(self._model.transform(distinct.tolist()))[place]


def _topic(hypothesis: str) -> str:
    return hypothesis.lower().removeprefix("this text is about ").removesuffix(".")


def predictions(parts: Mapping[str, Pairs], glosses: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return scores and features of the test pairs, by ``p_seen``, ``X_seen`` and so on."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    words = Words(glosses)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=PENALTY, max_iter=500))
    model.fit(words.features(parts["learning"]), parts["learning"].y)
    found: dict[str, NDArray[Any]] = {}
    for name in ("seen", "unseen"):
        X = words.features(parts[name])
        found |= {f"p_{name}": model.predict_proba(X)[:, 1], f"X_{name}": X}
    return found
