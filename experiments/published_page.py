"""The page on the paper's printed values: its statements counted, and its figures redrawn."""

from __future__ import annotations

import os
from pathlib import Path

import published_pictures as pictures
from epiloss._saving import write_text
from published_statements import RULES, statements
from study_verdicts import as_table, tally

PAGE = Path("docs/studies/published.md")
INTRODUCTION = """# What the paper printed

These are the paper's results, not ours. Perez-Lebel, Le Morvan and Varoquaux, *Beyond calibration:
estimating the grouping loss of modern neural networks* (ICLR 2023,
<https://openreview.net/forum?id=6w1k-IixnL8>), measured 27 networks on four sets of images, and BART on
Yahoo Answers. Their printed values are in `experiments/published/beyond_calibration.csv`. `python
experiments/vision.py --published` writes this page from them. `python experiments/vision.py --imagenet-r
DIR --networks all` measures the same networks and compares them with the printed values.

CL is the calibration loss and GL a lower bound on the grouping loss; CL' and GL' are the same after
isotonic recalibration. All are Brier scores summed over both classes. ImageNet-1K stands for the
validation images, and ImageNet-C for their corruptions of severity 5.
"""
FIGURES = (
    (
        "published-losses.png",
        pictures.losses,
        "Losses of 27 networks on four data sets, before and after recalibration",
        "Networks in the order of decreasing accuracy. Recalibration reduces the calibration loss "
        "(orange) to zero and does not change the grouping loss (blue).",
    ),
    (
        "published-accuracy.png",
        pictures.accuracies,
        "Grouping loss against accuracy on four data sets",
        "The bound on the grouping loss against accuracy. On ImageNet-R, more accurate networks have a "
        "larger loss. Scales differ: on ImageNet-1K all bounds are near zero.",
    ),
    (
        "published-shifts.png",
        pictures.shifts,
        "Grouping loss on snow against merged corruptions, and on ImageNet-R against ImageNet-1K",
        "Left: one corruption against a mixture of 19. Right: under shift against the images that the "
        "networks were trained for, on which there is almost no loss.",
    ),
)


def page(images: Path, folder: Path) -> str:
    """Draw the figures into ``images``, and return the page; links are relative to ``folder``."""
    found = statements()
    parts = [INTRODUCTION, "## Statements\n", f"{as_table(found, 'counted in print')}\n"]
    parts += [f"{tally(found)}. {RULES}\n", "## Figures, redrawn\n"]
    for name, draw, alternative, caption in FIGURES:
        link = Path(os.path.relpath(draw(images / name), folder)).as_posix()
        parts += [f"![{alternative}]({link})\n", f"*{caption}*\n"]
    return "\n".join(parts)


def write(target: Path, images: Path) -> Path:
    """Draw the figures, and write the page."""
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, page(images, target.parent))
    return target
