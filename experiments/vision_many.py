"""Many networks on the same images: the paper's statements about 27 networks, counted here.

Fourteen networks (`vision_judges.py`) classify the test images of CIFAR-10: as they are, with each of 19
corruptions at severity 5, and with one random corruption per image.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import epiloss
from epiloss import Audit, Estimate
from protocol import Line, Section, doubled, measure, one_thread, progress
from study_claims import kept_by_recalibration
from vision_data import cifar10
from vision_judges import HEAD_ROWS, N_COMPONENTS, PIXELS, Judge, judges
from vision_many_claims import Known, claims, group_claims
from vision_parts import CLEAN, MERGED, SEVERITY, SNOW, Parts

TITLE = "Many networks on CIFAR-10"
N_BATCHES = 2  # of 10,000 training images
QUICK_TRAIN = 1_500
DRAWN = (
    "6 convolutions, batch norm",
    "2 convolutions, batch norm",
)  # grouping diagrams; the first there is


@dataclass
class Found:
    """The results: lines by part, estimates by corruption and network, and losses by groups."""

    lines: dict[str, list[Line]] = field(default_factory=dict)
    single: dict[str, dict[str, Estimate]] = field(default_factory=dict)
    accuracy: dict[str, dict[str, float]] = field(default_factory=dict)
    known: list[Known] = field(default_factory=list)
    audits: dict[tuple[str, str], Audit] = field(default_factory=dict)  # of which diagrams are drawn
    by_group: dict[str, Audit] = field(default_factory=dict)


def measured(parts: Parts, networks: Sequence[Judge], seed: int) -> Found:
    """Audit every network on every part."""
    found = Found({part: [] for part in parts.large})
    for judge in progress(networks, "auditing networks", len(networks)):
        for part in (*parts.large, *parts.others):
            outputs = judge.outputs(partial(parts.images, part), parts.named(part), parts.folder)
            X = outputs["X"].astype(np.float64)
            for place, name in enumerate(judge.names):
                p = outputs[f"p_{place}"].astype(np.float64)
                p /= p.sum(axis=1, keepdims=True)  # single precision misses a sum of one by some 1e-6
                _audit(found, parts, part, name, p, X, seed)
    for lines in found.lines.values():
        lines.sort(key=lambda line: -line.accuracy)
    return found


def _audit(
    found: Found, parts: Parts, part: str, name: str, p: NDArray[Any], X: NDArray[Any], seed: int
) -> None:
    """Add the results of one network on one part, on all images and on as many as all parts have."""
    y = parts.labels(part)
    few = slice(parts.fewest)
    with one_thread():
        small = epiloss.audit(y[few], p[few], X[few], classes=range(p.shape[1]), random_state=seed)
    hit, top = p.argmax(axis=1) == y, p.max(axis=1)
    found.single.setdefault(part, {})[name] = doubled(small.grouping_loss)
    found.accuracy.setdefault(part, {})[name] = float(hit[few].mean())
    if part not in parts.large:
        return
    line, result = measure(name, y, p, X, seed=seed)
    found.lines[part].append(line)
    if name in DRAWN or part == MERGED:
        found.audits[name, part] = result
    if part == MERGED:
        found.known.append(by_known_groups(name, hit, top, X, parts.groups, seed))
        with one_thread():
            found.by_group[name] = epiloss.audit(
                hit, top, subgroups=parts.groups, task="binary", random_state=seed
            )


def by_known_groups(
    name: str,
    hit: NDArray[np.bool_],
    top: NDArray[Any],
    X: NDArray[Any],
    groups: NDArray[np.object_],
    seed: int,
) -> Known:
    """Estimate the grouping loss from groups, from features, and from both.

    The task is binary, so that the predicted class is not known besides, as it is for the top label.
    """
    features = {f"feature {place}": column for place, column in enumerate(X.T)}
    known = {"group": groups}
    with one_thread():
        found = [
            doubled(epiloss.audit(hit, top, columns, task="binary", random_state=seed).grouping_loss)
            for columns in (known, features, {**features, **known})
        ]
    return Known(name, *found)


def sections(given: Namespace) -> Iterator[Section]:
    """Yield the sections on all networks and on known groups."""
    import vision_many_pictures as pictures

    folder = given.cache / "cifar10"
    train, test = cifar10(given.cache, 1 if given.quick else N_BATCHES)
    if given.quick:
        train = train[:QUICK_TRAIN]
    parts = Parts(test, folder, given.seed, given.quick)
    networks = list(judges(train, folder, given.seed, given.quick))
    found = measured(parts, networks, given.seed)
    images, names = given.images, [line.name for line in found.lines[MERGED]]
    drawn = next(name for name in DRAWN if (name, CLEAN) in found.audits)
    yield Section(
        TITLE,
        found.lines[MERGED],
        text(found, len(train), parts),
        [
            pictures.losses(found.lines, images / "many-losses.png"),
            pictures.accuracies(found.lines, images / "many-accuracy.png"),
            pictures.shifts(found.lines, images / "many-shifts.png"),
            pictures.recalibration(found.lines, images / "many-recalibration.png"),
            pictures.corruptions(found.single, names, images / "many-corruptions.png"),
            pictures.grouping(
                drawn,
                {part: found.audits[drawn, part] for part in parts.large},
                found.lines,
                images / "many-diagrams.png",
            ),
            pictures.every_grouping(
                [(line, found.audits[line.name, MERGED]) for line in found.lines[MERGED]],
                images / "many-diagrams-merged.png",
            ),
        ],
        tables(found, parts),
        claims(found.lines, found.single),
        [line for part in (CLEAN, SNOW) for line in found.lines[part]],
    )
    yield Section(
        "Known groups: which corruption it was",
        [],
        group_text(found.known, len(parts.labels(MERGED))),
        [
            pictures.known(found.known, images / "known-groups.png"),
            pictures.heterogeneity(found.by_group, images / "known-heterogeneity.png"),
        ],
        group_table(found.known),
        group_claims(found.known),
    )


def text(found: Found, n_train: int, parts: Parts) -> str:
    """Return what was measured, and how it differs from the paper."""
    n_networks = len(found.lines[CLEAN])
    every = [line for lines in found.lines.values() for line in lines]
    return (
        f"{n_networks} networks classify the same {parts.size(CLEAN):,} test images of CIFAR-10: as "
        f"they are, with one of 19 corruptions drawn for each image (the first table), and with snow; "
        f"and {parts.size(parts.others[0]):,} of them with each other corruption, all at severity "
        f"{SEVERITY}. The networks trained here are small: they learned from {n_train:,} images for 6 "
        f"to 10 epochs, on one core. EfficientNet-Lite was trained on ImageNet and gets the images "
        f"enlarged to {PIXELS} pixels; its linear head learned from {min(n_train, HEAD_ROWS):,} images, "
        f"and its features are {N_COMPONENTS} principal components of 1,280. "
        f"{kept_by_recalibration(every)}. Differences from the paper: the networks, the data, "
        f"corruptions designed for 32 pixels, and fewer images. The paper has 50,000, so its trees "
        f"find more than ours; twins need fewer."
    )


def tables(found: Found, parts: Parts) -> str:
    """Return the lines of the other parts, and the mean over networks for each corruption."""
    from protocol import markdown

    titles = {CLEAN: "Clean images", SNOW: "Snow"}
    few = f"{parts.fewest:,}"
    blocks = [f"**{title}**\n\n{markdown(found.lines[part])}" for part, title in titles.items()]
    rows = ["| images | mean accuracy | mean GL by twins | networks significantly above 0 |"]
    rows.append("|---|---:|---:|---:|")
    by_mean = sorted(
        found.single, key=lambda part: -np.mean([one.value for one in found.single[part].values()])
    )
    for part in by_mean:
        known = list(found.single[part].values())
        clear = sum(one.low is not None and one.low > 0 for one in known)
        accuracy = np.mean(list(found.accuracy[part].values()))
        mean = np.mean([one.value for one in known])
        name = part.replace("_", " ")
        cells = f"{accuracy:.3f} | {mean:z.4f} | {clear} of {len(known)}"
        rows.append(f"| {name} | {cells} |")
    return "\n\n".join(
        [*blocks, f"**The same {few} images of each part**, sorted by the mean", "\n".join(rows)]
    )


def group_text(known: Sequence[Known], n: int) -> str:
    """Return a paragraph on what known groups explain compared with features."""
    of_both = [100 * one.groups.value / one.both.value for one in known if one.both.value > 0]
    share = f"{np.median(of_both):.0f}%" if of_both else "nothing"
    return (
        f"The paper uses renditions as groups; here each of {n:,} images has one of 19 corruptions. "
        "Twins estimate the grouping loss from the corruption alone, from the network's features alone, "
        "and from both. They learn whether the top label is right and do not know which label it is, so "
        "features find less than on the page of these networks. What both find beyond the corruption is "
        "heterogeneity within corruptions; what they find beyond the features is information on the "
        f"corruption that the features lack. In the median network, the corruption alone explains "
        f"{share} of what both explain."
    )


def group_table(known: Sequence[Known]) -> str:
    """Return the table of the losses by groups, by features and by both."""
    rows = [
        "| | by corruption | by features | by both | share of corruption |",
        "|---|---:|---:|---:|---:|",
    ]
    for one in known:
        share = f"{one.groups.value / one.both.value:.0%}" if (one.both.low or 0) > 0 else ""
        rows.append(
            f"| {one.name} | {one.groups:z.4f} | {one.features:z.4f} | {one.both:z.4f} | {share} |"
        )
    return "\n".join(rows)
