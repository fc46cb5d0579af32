"""Run all studies that need no further data, and write docs/studies.md and a page per section.

    python experiments/studies.py            # half an hour, once; then minutes, from the cache
    python experiments/studies.py --quick    # two minutes; the pages go to the output folder

Each study runs in its own process. Studies that fail are named at the end, and the exit code is 1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import published_page
from epiloss._saving import write_text
from protocol import Section, as_markdown, options, read_section
from study_claims import left_claim, tree_pairs, twin_pairs
from study_sources import time_noted
from study_verdicts import UNTESTED, Statement, as_table, tally

EXPERIMENTS = Path(__file__).parent
STUDIES = ("vision", "nlp", "ratings", "examples")  # the order of the page
PAGE = Path("docs/studies.md")
FOLDER = "studies"  # next to the page
INTRODUCTION = """# Studies

These studies repeat those of Perez-Lebel, Le Morvan and Varoquaux, *Beyond calibration: estimating the
grouping loss of modern neural networks* (ICLR 2023), on networks and data that can be installed from
package registries, and add some in which the truth is known. `python experiments/studies.py` writes this
page.

**Protocol.** The task is the top label (or binary). *GL by trees* follows the paper's tables: one half
of the rows learns and the other half evaluates, with 15 bins of equal width and a decision tree with 30
learning rows per region in each. It is a lower bound. *Twins* are the default of `epiloss.audit`: an
estimate without bins, which misses what its learners cannot express. CL is the calibration loss. A prime
(CL', GL') marks the same after isotonic recalibration; twins learn from all rows both times. Brackets
are 95% intervals. Rows in italics are published figures.

**Scale.** Brier scores are summed over both classes, as in the paper: twice the values of
`epiloss.audit`.
"""
RULES = (
    "A count *holds* if it is at least 90% and *holds in part* if it is at least 50%. A rise holds if "
    "it is beyond the intervals at every step, and in part if it is beyond them at some steps and there "
    "is a rise at the others. A rank correlation (Spearman's) holds if it is positive with a two-sided "
    "p-value below 5%. *Does not hold* means that it is not found here; its opposite need not be true. "
    "That networks *can* differ holds if one pair does. Networks share images, so counts over networks "
    "are not independent. These limits are ours; the paper gives none. That the verdict on shift leaves "
    "out zero-shot networks was decided after a first look: with them it would hold in part. Each study "
    "is one draw of its seed, except the samples with known losses."
)
NEEDS = (
    ("ImageNet-R", "27 networks on renditions", "--imagenet-r DIR --networks all"),
    ("ImageNet-C", "27 networks on 19 corruptions and on snow", "--imagenet-c DIR --networks all"),
    ("ImageNet-1K", "27 networks without shift", "--imagenet DIR --networks all"),
)


@dataclass(frozen=True)
class Run:
    """A study that was run, with its sections in the order in which they were written."""

    name: str
    failed: bool
    seconds: float
    cpu: float  # seconds
    caching: float  # seconds of CPU time spent on what is cached
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
    start, cpu, noted = time.perf_counter(), cpu_of_children(), time_noted(given.cache)
    done = subprocess.run(command, check=False)
    seconds, cpu = time.perf_counter() - start, cpu_of_children() - cpu
    caching = time_noted(given.cache) - noted
    written = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    sections = tuple(read_section(path) for path in written)
    return Run(name, done.returncode != 0, seconds, cpu, caching, sections)


def cpu_of_children() -> float:
    """Return the CPU time of all processes that this one has started and that have ended."""
    used = os.times()
    return used.children_user + used.children_system


def page(runs: Sequence[Run], folder: Path, cached: float) -> str:
    """Return the page of all studies; its links are relative to ``folder``."""
    sections = [section for one in runs for section in one.sections]
    claims = [*together(sections), *(claim for one in sections for claim in one.claims), *untested()]
    names = [("published", "What the paper printed")]
    names += [(section.slug, section.title) for section in sections]
    parts = [
        INTRODUCTION,
        "## The paper's statements, and what was found here\n",
        f"{as_table(claims)}\n",
        f"{tally(claims)}. {RULES}\n",
        "## Pages\n",
        "\n".join(f"- [{title}]({FOLDER}/{slug}.md)" for slug, title in names) + "\n",
        "```{toctree}\n:hidden:\n\n" + "\n".join(f"{FOLDER}/{slug}" for slug, _ in names) + "\n```\n",
        f"## Times\n\n{times(runs, cached)}\n",
    ]
    failed = [f"`experiments/{one.name}.py`" for one in runs if one.failed]
    if failed:
        parts.append(f"Failed: {', '.join(failed)}.\n")
    return "\n".join(parts)


def together(sections: Sequence[Section]) -> list[Statement]:
    """Count in the tables of all studies how often recalibration does not change the grouping loss."""
    known = [section for section in sections if section.lines]
    lines = [line for section in known for line in (*section.lines, *section.further)]
    data = f"{len(known)} studies together"
    kinds = (("by twins", twin_pairs(lines)), ("by trees", tree_pairs(lines)))
    return [left_claim(pairs, data, how) for how, pairs in kinds if pairs]


def untested() -> list[Statement]:
    """Return the paper's statements on data that cannot be installed from a package registry."""
    count = "see [What the paper printed]({}/published.md) for its values; to measure: `vision.py {}`"
    return [
        Statement(f"The paper's values: {what}", data, count.format(FOLDER, how), UNTESTED)
        for data, what, how in NEEDS
    ]


def times(runs: Sequence[Run], cached: float) -> str:
    """Return the times of the studies, and the CPU time that the cache took to fill."""
    shown = [(f"`experiments/{one.name}.py`", (one.seconds, one.cpu, one.caching)) for one in runs]
    total = tuple(sum(column) for column in zip(*(taken for _, taken in shown), strict=True))
    rows = ["| study | time | CPU time | of which for the cache |", "|---|---:|---:|---:|"]
    for name, taken in [*shown, ("together", total)]:
        rows.append(f"| {name} | {' | '.join(map(duration, taken))} |")
    found = cached - sum(one.caching for one in runs)
    if found > 0.5:
        cpu = sum(one.cpu for one in runs)
        text = (
            "Trained networks, embeddings and scores came from the cache, which took "
            f"{duration(found)} of CPU time to fill: from an empty cache, all this takes "
            f"{duration(cpu + found)} of one core."
        )
    else:
        text = (
            "Trained networks, embeddings and scores are cached. The cache was empty at the start, so "
            "these are the times of everything, downloads included."
        )
    return "\n".join([*rows, "", text])


def duration(seconds: float) -> str:
    """Return a time in words.

    Examples
    --------
    >>> duration(42.4), duration(125)
    ('42 s', '2 min 5 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def write_pages(runs: Sequence[Run], target: Path, images: Path, cached: float) -> None:
    """Write the page of all studies, and one page for each section into its folder."""
    folder = target.parent / FOLDER
    published_page.write(folder / published_page.PAGE.name, images)
    for section in (section for one in runs for section in one.sections):
        write_text(folder / f"{section.slug}.md", as_markdown(section, folder))
    write_text(target, page(runs, target.parent, cached))


def main(arguments: Sequence[str] | None = None, scripts: Path = EXPERIMENTS) -> int:
    """Run the studies, and write the page."""
    import matplotlib

    matplotlib.use("Agg")
    parser = options("Run all studies that need no further data, and write their pages.")
    parser.add_argument("--studies", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--page", type=Path, help=f"default {PAGE}; with --quick in the output folder")
    given = parser.parse_args(arguments)
    # numbers of small samples do not belong in the documentation
    target = given.page or (given.output / "studies.md" if given.quick else PAGE)
    runs = []
    for name in [study for study in STUDIES if study in given.studies]:
        print(f"--- {name}", file=sys.stderr, flush=True)
        runs.append(run(name, given, scripts))
    write_pages(runs, target, given.images, time_noted(given.cache))
    for one in runs:
        state = "failed" if one.failed else "done"
        print(f"{one.name}: {state} in {duration(one.seconds)}", file=sys.stderr)
    return int(any(one.failed for one in runs))


if __name__ == "__main__":
    sys.exit(main())
