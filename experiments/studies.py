"""Run every study that runs here, and join what they found into one page: docs/studies.md.

    python experiments/studies.py            # an hour or two, once; then from the cache
    python experiments/studies.py --quick    # minutes; the page goes to the output folder

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
from study_claims import within

EXPERIMENTS = Path(__file__).parent
STUDIES = ("vision", "nlp", "ratings", "examples")  # the order of the page
PAGE = Path("docs/studies.md")
INTRODUCTION = """# Studies

What `python experiments/studies.py` printed. The studies rebuild those of Perez-Lebel, Le Morvan and
Varoquaux, *Beyond calibration: estimating the grouping loss of modern neural networks* (ICLR 2023), on
networks and data that package registries hold, and add some where the truth is known.

**Protocol.** That of the paper's tables: the task is the top label (or binary), half of the rows learns
and the other half evaluates, 15 bins of equal width, in each a decision tree with 30 learning rows per
region; the same again after isotonic recalibration, marked by a dash (CL', GL'). Unlike the paper, the
halves then change places and both results are averaged. CL is the calibration loss and GL a lower bound
on the grouping loss. *Cross-fitted* is our own bound, without bins. Brackets are 95% intervals. Rows in
italics are published figures.

**Scale.** Brier scores summed over both classes, as in the paper: twice what `epiloss.audit` reports.

Times are of this run; what was downloaded, trained or embedded before came out of the cache.

[What the paper printed](studies/published.md) counts its statements in its own values and redraws its
figures.

```{toctree}
:hidden:

studies/published
```
"""


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


def page(runs: Sequence[Run], folder: Path) -> str:
    """Return the page, whose links start in ``folder``."""
    parts = [INTRODUCTION, shown(runs)]
    for one in runs:
        parts += [as_markdown(section, folder) for section in one.sections]
        if one.sections:
            parts.append(f"*`experiments/{one.name}.py` took {duration(one.seconds)}.*\n")
    failed = [f"`experiments/{one.name}.py`" for one in runs if one.failed]
    if failed:
        parts.append(f"Did not run to its end here: {', '.join(failed)}.\n")
    return "\n".join(parts)


def shown(runs: Sequence[Run]) -> str:
    """Return what the studies were to show, as they counted it."""
    sections = [section for one in runs for section in one.sections]
    lines = [line for section in sections for line in section.lines]
    points = [f"All tables with GL and GL': {within(lines)}."] if lines else []
    points += [f"{section.title}: {finding}." for section in sections for finding in section.findings]
    return "\n".join(
        ["**What was to be shown**, counted by the script:", "", *(f"- {point}" for point in points), ""]
    )


def duration(seconds: float) -> str:
    """Return a time in words.

    Examples
    --------
    >>> duration(42.4), duration(125)
    ('42 s', '2 min 5 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def main(arguments: Sequence[str] | None = None, scripts: Path = EXPERIMENTS) -> int:
    """Run the studies, and write the page."""
    parser = options("Run every study that runs here, and join them into one page.")
    parser.add_argument("--studies", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--page", type=Path, help=f"default {PAGE}; with --quick in the output folder")
    given = parser.parse_args(arguments)
    # numbers of small samples do not belong into the documentation
    target = given.page or (given.output / "studies.md" if given.quick else PAGE)
    runs = []
    for name in [study for study in STUDIES if study in given.studies]:
        print(f"--- {name}", file=sys.stderr, flush=True)
        runs.append(run(name, given, scripts))
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, page(runs, target.parent))
    for one in runs:
        state = "failed" if one.failed else "done"
        print(f"{one.name}: {state} in {duration(one.seconds)}", file=sys.stderr)
    return int(any(one.failed for one in runs))


if __name__ == "__main__":
    sys.exit(main())
