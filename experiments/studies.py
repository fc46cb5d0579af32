"""Run every study that runs here, and write docs/studies.md and a page for each section.

    python experiments/studies.py            # an hour or two, once; then from the cache
    python experiments/studies.py --quick    # minutes; the pages go to the output folder

Each study is a process of its own. One that fails is named at the end, and the exit code is 1.
"""

from __future__ import annotations

import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from epiloss._saving import write_text
from protocol import Section, as_markdown, options, read_section
from study_claims import left_claim, tree_pairs, twin_pairs
from study_sources import time_noted
from study_verdicts import UNTESTED, Statement, as_table, tally

EXPERIMENTS = Path(__file__).parent
STUDIES = ("vision", "nlp", "ratings", "examples")  # the order of the page
PAGE = Path("docs/studies.md")
FOLDER = "studies"  # beside the page
INTRODUCTION = """# Studies

What `python experiments/studies.py` printed. The studies rebuild those of Perez-Lebel, Le Morvan and
Varoquaux, *Beyond calibration: estimating the grouping loss of modern neural networks* (ICLR 2023), on
networks and data that package registries hold, and add some where the truth is known.

**Protocol.** The task is the top label (or binary). *GL by trees* follows the paper's tables: half of
the rows learns and the other half evaluates, 15 bins of equal width, in each a decision tree with 30
learning rows per region. It is a lower bound. *Twins* are the default of `epiloss.audit`: no bins, and
an estimate that is right up to what the learners miss. A dash (CL', GL') marks the same after isotonic
recalibration; twins learn from all rows both times. CL is the calibration loss. Brackets are 95%
intervals. Rows in italics are published figures.

**Scale.** Brier scores summed over both classes, as in the paper: twice what `epiloss.audit` reports.
"""
RULES = (
    "A count *holds* from 90% on and *holds in part* from 50% on. A rise holds if it is beyond the "
    "intervals at every step, and in part if there is a rise at every step. A rank correlation "
    "(Spearman's) holds if it is positive and its two-sided p-value is below 5%, and in part if it is "
    "positive only. That networks *can* differ holds if a pair does. Networks share images, so counts "
    "over networks are not independent. The paper gives no limits; these are ours. That the verdict on "
    "shift leaves out zero-shot networks was decided after a first look: with them it would hold in "
    "part. Each study is one draw of its seed."
)
NEEDS = (
    ("ImageNet-R", "27 networks on renditions", "--imagenet-r DIR --networks all"),
    ("ImageNet-C", "27 networks on 19 corruptions and on snow", "--imagenet-c DIR --networks all"),
    ("ImageNet-1K", "27 networks without shift", "--imagenet DIR --networks all"),
)


@dataclass(frozen=True)
class Run:
    """A study that ran: its sections in the order in which it wrote them."""

    name: str
    failed: bool
    seconds: float
    sections: tuple[Section, ...]


def run(name: str, given: Namespace, scripts: Path = EXPERIMENTS) -> Run:
    """Run a study, and read the sections that it wrote."""
    folder = given.output / name
    for old in folder.glob("*.json"):
        old.unlink()  # of an earlier run
    command = [sys.executable, str(scripts / f"{name}.py"), "--output", str(folder)]
    command += ["--cache", str(given.cache), "--images", str(given.images), "--seed", str(given.seed)]
    if given.quick:
        command.append("--quick")
    start = time.perf_counter()
    done = subprocess.run(command, check=False)
    seconds = time.perf_counter() - start
    written = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    sections = tuple(read_section(path) for path in written)
    return Run(name, done.returncode != 0, seconds, sections)


def page(runs: Sequence[Run], folder: Path, cached: float) -> str:
    """Return the page of all studies, whose links start in ``folder``."""
    sections = [section for one in runs for section in one.sections]
    claims = [*together(sections), *(claim for one in sections for claim in one.claims), *untested()]
    names = [("published", "What the paper printed")]
    names += [(section.slug, section.title) for section in sections]
    parts = [
        INTRODUCTION,
        "## What the paper says, and what is found here\n",
        f"{as_table(claims)}\n",
        f"{tally(claims)}. {RULES}\n",
        "## Pages\n",
        "\n".join(f"- [{title}]({FOLDER}/{slug}.md)" for slug, title in names) + "\n",
        "```{toctree}\n:hidden:\n\n" + "\n".join(f"{FOLDER}/{slug}" for slug, _ in names) + "\n```\n",
        f"## Times\n\n{times(runs, cached)}\n",
    ]
    failed = [f"`experiments/{one.name}.py`" for one in runs if one.failed]
    if failed:
        parts.append(f"Did not run to its end here: {', '.join(failed)}.\n")
    return "\n".join(parts)


def together(sections: Sequence[Section]) -> list[Statement]:
    """Count in all tables with GL and GL' what recalibration leaves."""
    lines = [line for section in sections for line in section.lines]
    kinds = (("by twins", twin_pairs(lines)), ("by trees", tree_pairs(lines)))
    return [left_claim(pairs, "all tables", how) for how, pairs in kinds if pairs]


def untested() -> list[Statement]:
    """Return what the paper shows on data that no package registry holds."""
    count = "its printed values are counted in [What the paper printed]({}/published.md); `vision.py {}`"
    return [
        Statement(f"The paper's values: {what}", data, count.format(FOLDER, how), UNTESTED)
        for data, what, how in NEEDS
    ]


def times(runs: Sequence[Run], cached: float) -> str:
    """Say how long the studies took, and what came out of the cache."""
    rows = [f"- `experiments/{one.name}.py`: {duration(one.seconds)}" for one in runs]
    made = (
        f"What is trained, embedded or scored is kept in the cache; from an empty one it takes "
        f"{duration(cached)} of one core besides."
    )
    return "\n".join([*rows, "", made])


def duration(seconds: float) -> str:
    """Return a time in words.

    Examples
    --------
    >>> duration(42.4), duration(125)
    ('42 s', '2 min 5 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def write_pages(runs: Sequence[Run], target: Path, cached: float) -> None:
    """Write the page of all studies, and one for each section into the folder beside it."""
    folder = target.parent / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for section in (section for one in runs for section in one.sections):
        write_text(folder / f"{section.slug}.md", as_markdown(section, folder))
    write_text(target, page(runs, target.parent, cached))


def main(arguments: Sequence[str] | None = None, scripts: Path = EXPERIMENTS) -> int:
    """Run the studies, and write the page."""
    parser = options("Run every study that runs here, and write their pages.")
    parser.add_argument("--studies", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--page", type=Path, help=f"default {PAGE}; with --quick in the output folder")
    given = parser.parse_args(arguments)
    # numbers of small samples do not belong into the documentation
    target = given.page or (given.output / "studies.md" if given.quick else PAGE)
    runs = []
    for name in [study for study in STUDIES if study in given.studies]:
        print(f"--- {name}", file=sys.stderr, flush=True)
        runs.append(run(name, given, scripts))
    write_pages(runs, target, time_noted(given.cache))
    for one in runs:
        state = "failed" if one.failed else "done"
        print(f"{one.name}: {state} in {duration(one.seconds)}", file=sys.stderr)
    return int(any(one.failed for one in runs))


if __name__ == "__main__":
    sys.exit(main())
