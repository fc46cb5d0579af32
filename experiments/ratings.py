"""Estimates compared with a known truth: ``python experiments/ratings.py``.

On texts rated by 15 or more people, the grouping loss is measured from the repeated labels; the
estimates use one label per text, and features that are more or less informative. On Census-Income,
boosting proves how much of a logistic model's loss is grouping loss. Losses are Brier scores over both
classes.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import epiloss
from epiloss import Estimate
from epiloss._typing import Floats
from protocol import (
    MissingError,
    Section,
    doubled,
    escaped,
    one_thread,
    options,
    progress,
    table,
    write_section,
)
from ratings_ceiling import MOST, ceiling
from ratings_data import Domain, components, drawn, load, surface
from study_claims import counted, left_claim, overlap
from study_sources import kept
from study_verdicts import Statement, by_share

DATA = "texts with ratings"  # in the table of claims
TITLE = "Truth known: texts with many ratings"
QUICK_ROWS = 1_000
BEST = "mean of the other ratings"


@dataclass(frozen=True)
class Scored:
    """A domain with a classifier's scores, one drawn label per text, and features by name."""

    domain: Domain
    scores: Floats
    recalibrated: Floats
    y: NDArray[np.int64]
    features: Mapping[str, Floats]


@dataclass(frozen=True)
class Found:
    """The loss of one domain, measured from all labels, and the estimates for each set of features."""

    name: str
    n: int
    n_ratings: int  # of a text, the fewest
    accuracy: float
    cl: tuple[Estimate, Estimate]  # as given, after isotonic; so are the others
    direct: tuple[Estimate, Estimate]
    partition: Mapping[str, tuple[Estimate, Estimate]]
    twins: Mapping[str, tuple[Estimate, Estimate]]
    ceiling: Mapping[str, Estimate]  # what twins find from many ratings of each text
    seconds: float  # of all audits

    @property
    def bounds(self) -> Iterator[tuple[str, Estimate, Estimate]]:
        """Each estimate with the name of its features and the measured loss."""
        for kind in (self.partition, self.twins):
            for name, pair in kind.items():
                for bound, truth in zip(pair, self.direct, strict=True):
                    yield name, bound, truth


def embeddings(cache: Path, domains: Mapping[str, Domain]) -> dict[str, Floats]:
    """Return MiniLM's vectors of each domain's texts, computed once."""
    from minilm import embed

    def make(domain: Domain) -> dict[str, NDArray[Any]]:
        return {"X": embed(domain.texts, cache).astype(np.float16)}

    found = {}
    for name, domain in domains.items():
        path = cache / "ratings" / f"minilm-{name.replace(' ', '-')}-{len(domain.texts)}.npz"
        found[name] = kept(path, ("X",), partial(make, domain))["X"].astype(float)
    return found


def classifier(X: Floats, y: NDArray[np.int64], seed: int) -> Any:
    """Return a small network trained on one label per text."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    network = MLPClassifier((32,), alpha=1e-2, early_stopping=True, random_state=seed)
    return make_pipeline(StandardScaler(), network).fit(X, y)


def isotonic(scores: Floats, y: NDArray[np.int64], clusters: Any, seed: int) -> Floats:
    """Recalibrate each half of the rows with the other half."""
    from sklearn.isotonic import IsotonicRegression

    _, codes = np.unique(np.arange(len(y)) if clusters is None else clusters, return_inverse=True)
    side = np.random.default_rng(seed).permutation(codes.max() + 1)[codes] % 2 == 0
    better = np.empty_like(scores)
    for half in (side, ~side):
        model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        better[~half] = model.fit(scores[half], y[half]).predict(scores[~half])
    return better


def scored(domains: Mapping[str, Domain], cache: Path, seed: int, quick: bool) -> list[Scored]:
    """Train on half of the movies, and score the other half and the other domains."""
    streams = np.random.default_rng(seed).spawn(2 + len(domains))
    movies = domains["movies"]
    order = streams[0].permutation(len(movies.texts))
    learning, held_out = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
    vectors = {} if quick else embeddings(cache, domains)
    words = components(
        movies.take(learning).texts, {name: domain.texts for name, domain in domains.items()}
    )
    seen_by_model = words if quick else vectors
    y_learning, _ = drawn(movies.labels[learning], streams[1])
    model = classifier(seen_by_model["movies"][learning], y_learning, seed)
    found = []
    for (name, whole), stream in zip(domains.items(), streams[2:], strict=True):
        rows = held_out if name == "movies" else np.arange(len(whole.texts))
        domain = whole.take(rows)
        y, others = drawn(domain.labels, stream)
        scores = model.predict_proba(seen_by_model[name][rows])[:, 1]
        features = {
            "the score alone": scores[:, None],
            "length and punctuation": surface(domain.texts),
            "TF-IDF, 50 components": words[name][rows],
            **({} if quick else {"MiniLM, 384 columns": vectors[name][rows]}),
            BEST: others[:, None],
        }
        better = isotonic(scores, y, domain.clusters, seed)
        found.append(Scored(domain, scores, better, y, features))
    return found


def measured(one: Scored, seed: int) -> Found:
    """Measure the grouping loss from all labels, and estimate it from one label per text."""
    start = time.perf_counter()
    domain, both = one.domain, (one.scores, one.recalibrated)
    shared: dict[str, Any] = {"clusters": domain.clusters, "random_state": seed}
    direct = [epiloss.audit(domain.labels, p, **shared) for p in both]
    bounds = {
        name: [
            [epiloss.audit(one.y, p, X, method=method, **shared) for p in both]
            for method in ("paper", "twin")
        ]
        for name, X in progress(one.features.items(), domain.name, len(one.features))
    }
    partition, twins = (
        {
            name: (doubled(pair[k][0].grouping_loss), doubled(pair[k][1].grouping_loss))
            for name, pair in bounds.items()
        }
        for k in (0, 1)
    )
    ceilings = {
        name: ceiling(one.scores, domain.labels, X, domain.clusters, seed)
        for name, X in one.features.items()
        if name != BEST  # which has the other ratings in it
    }
    return Found(
        domain.name,
        len(one.y),
        int((~np.isnan(domain.labels)).sum(axis=1).min()),
        float(np.mean((one.scores >= 0.5) == one.y)),
        (doubled(direct[0].calibration_loss), doubled(direct[1].calibration_loss)),
        (doubled(direct[0].grouping_loss), doubled(direct[1].grouping_loss)),
        partition,
        twins,
        ceilings,
        time.perf_counter() - start,
    )


def tables(found: Sequence[Found]) -> str:
    """Return the tables in Markdown: the measured loss, and how much of it each estimate finds."""
    first = [
        "| | texts | accuracy | CL | CL' | GL, measured | GL', measured | audits |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one in found:
        losses = " | ".join(f"{loss:z.4f}" for loss in (*one.cl, *one.direct))
        first.append(
            f"| {escaped(one.name)} | {one.n:,} | {one.accuracy:.3f} | {losses} | {one.seconds:.0f} s |"
        )
    second = [
        "| | features | trees | trees' | twins | twins' | found | twins, many ratings |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for one in found:
        for name in one.partition:
            bounds = (*one.partition[name], *one.twins[name])
            losses = " | ".join(f"{loss:z.4f}" for loss in bounds)
            seen = one.twins[name][0].value / one.direct[0].value
            most = f"{one.ceiling[name]:z.4f}" if name in one.ceiling else ""
            second.append(f"| {escaped(one.name)} | {escaped(name)} | {losses} | {seen:z.0%} | {most} |")
    return "\n".join([*first, "", *second])


def never_above(found: Sequence[Found]) -> str:
    """Return how many estimates lie below the measured loss."""
    everything = [(one.name, *known) for one in found for known in one.bounds]
    below = sum(bound.value <= truth.value for _, _, bound, truth in everything)
    over = [
        f"{place} ({name})"
        for place, name, bound, truth in everything
        if bound.low is not None and truth.high is not None and bound.low > truth.high
    ]
    text = f"{below} of {len(everything)} estimates lie below the measured grouping loss"
    if over:
        names = ", ".join(dict.fromkeys(over))
        return f"{text}, and the intervals of {len(over)} lie above it: {names}"
    return f"{text}, and no interval lies above it"


def unchanged(found: Sequence[Found]) -> str:
    """Return for how many domains recalibration does not change the losses."""
    direct = counted(one.direct for one in found)
    trees = counted(pair for one in found for pair in one.partition.values())
    twins = counted(pair for one in found for pair in one.twins.values())
    moved = max(abs(one.direct[1].value - one.direct[0].value) for one in found)
    return (
        f"GL' lies within the 95% interval of GL in {direct.within} of {direct.n} domains when it is "
        f"measured (it changes by at most {moved:.4f}), in {trees.within} of {trees.n} rows by trees "
        f"and in {twins.within} of {twins.n} by twins"
    )


def at_the_ceiling(found: Sequence[Found]) -> Statement:
    """Count the features from which twins find as much with one label per text as with many."""
    both = [(one.twins[name][0], loss) for one in found for name, loss in one.ceiling.items()]
    n = sum(overlap(*pair) for pair in both)
    count = f"the intervals from one rating and from {MOST} overlap in {n} of {len(both)} rows"
    verdict = by_share(n, len(both))
    return Statement("Twins find from one label what the features contain", DATA, count, verdict)


def claims(found: Sequence[Found]) -> list[Statement]:
    """Return the claims about the estimates, compared with the measured losses."""
    every = [known for one in found for known in one.bounds]
    over = sum(
        bound.low is not None and truth.high is not None and bound.low > truth.high
        for _, bound, truth in every
    )
    text = "An estimate does not exceed the true grouping loss"
    fine = len(every) - over
    count = f"the interval does not lie above the measured loss in {fine} of {len(every)} estimates"
    weak = [one.twins["the score alone"][0] for one in found]
    none = sum((loss.low or 0) <= 0 for loss in weak)
    seen = f"{none} of {len(weak)} domains, although the loss is 0.1 or more"
    return [
        Statement(text, DATA, count, by_share(fine, len(every))),
        Statement(
            "No evidence of a loss is not evidence of no loss",
            DATA,
            f"from uninformative features, none is found in {seen}",
            by_share(none, len(weak)),
        ),
        at_the_ceiling(found),
        left_claim([one.direct for one in found], DATA, "measured"),
        left_claim([pair for one in found for pair in one.twins.values()], DATA),
    ]


def paragraph(found: Sequence[Found], n_dropped: int) -> str:
    """Return the paragraph on the results."""
    low, high = (f(one.direct[0].value for one in found) for f in (min, max))

    def seen(name: str) -> str:
        shares = [one.twins[name][0].value / one.direct[0].value for one in found]
        return f"{min(shares):z.0%} to {max(shares):z.0%}"

    def most(name: str) -> str:
        shares = [one.ceiling[name].value / one.direct[0].value for one in found]
        return f"{min(shares):z.0%} to {max(shares):z.0%}"

    names = list(found[0].partition)
    shares = ", ".join(f"{name}: {seen(name)}" for name in names)
    reach = ", ".join(f"{name}: {most(name)}" for name in names if name != BEST)
    return (
        f"A network is trained on one label of each text in one half of the movie snippets, and applied "
        f"to the other half and to three other domains. Each text has at least "
        f"{min(one.n_ratings for one in found)} ratings, from which the grouping loss is measured: "
        f"{low:.3f} to {high:.3f}. {never_above(found)}. {unchanged(found)}: the measured loss needs "
        f"no bins and no regions, whereas trees use other bins for recalibrated scores. "
        f"How much of it twins find depends on the features ({shares}): "
        f"no evidence of a grouping loss in weak features is not evidence of no loss. The ceiling is "
        f"what the same twins find from {MOST} ratings of each text ({reach}): "
        f"{at_the_ceiling(found).count}. The rest is in the texts, but not in these features. "
        f"Intervals of the Amazon and New York Times rows are clustered by document. {n_dropped} "
        f"tweets, whose two files disagree on the mean rating, are left out. The paper has no figures "
        f"to compare with."
    )


def picture(found: Sequence[Found], path: Path) -> Path:
    """Draw the measured loss of each domain as a line, and the estimates as points."""
    from epiloss.presentation.plot.style import BLUE, ORANGE, faded, matplotlib_modules
    from study_pictures import save

    names = list(found[0].partition)
    figure, axes = matplotlib_modules().subplots(
        1, len(found), figsize=(3 * len(found), 3.4), sharey=True, layout="constrained"
    )
    place = np.arange(len(names))[::-1]
    for ax, one in zip(axes, found, strict=True):
        direct = one.direct[0]
        ax.axvspan(direct.low, direct.high, color=faded(ax, 0.2), lw=0)
        ax.axvline(direct.value, color=faded(ax, 0.9), lw=1.2, label="measured from all ratings")
        for bounds, colour, offset, label in (
            (one.twins, BLUE, 0.13, "twins"),
            (one.partition, ORANGE, -0.13, "bound by trees"),
        ):
            values = [bounds[name][0] for name in names]
            x = np.array([value.value for value in values])
            reach = [[value.value - (value.low or 0) for value in values]]
            reach.append([(value.high or 0) - value.value for value in values])
            ax.errorbar(
                x, place + offset, xerr=np.maximum(reach, 0), fmt="o", ms=4, color=colour, lw=1.2
            )
            ax.plot([], [], "o-", ms=4, color=colour, label=label)
        ax.axvline(0, color=faded(ax, 0.4), lw=0.6)
        ax.set_title(f"{one.name}, {one.n:,} texts", fontsize=10)
        ax.set_yticks(place, names)
        ax.set_ylim(-0.6, len(names) - 0.4)
        ax.set_xlabel("grouping loss")
        ax.grid(axis="y", color=faded(ax, 0.12))
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        ax.tick_params(axis="y", length=0)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return save(figure, path)


def ratings_section(given: Namespace) -> Section:
    """Measure, draw the figures, and return the section."""
    domains = load(given.cache)
    if given.quick:
        generator = np.random.default_rng(given.seed)
        sizes = {name: QUICK_ROWS * (2 if name == "movies" else 1) for name in domains}
        domains = {
            name: one.take(np.sort(generator.permutation(len(one.texts))[: sizes[name]]))
            for name, one in domains.items()
        }
    found = [measured(one, given.seed) for one in scored(domains, given.cache, given.seed, given.quick)]
    image = picture(found, given.images / "ratings-bounds.png")
    text = paragraph(found, domains["tweets"].n_dropped)
    return Section(TITLE, [], text, [image], tables(found), claims(found))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both parts, print the results, and write their sections."""
    import matplotlib

    matplotlib.use("Agg")
    given = options("Bounds on the grouping loss where it is known.").parse_args(arguments)
    from ratings_census import census_section

    failed = False
    for make in (ratings_section, census_section):
        try:
            with one_thread():
                section = make(given)
        except MissingError as missing:
            print(missing, file=sys.stderr)
            failed = True
            continue
        shown = table(section.lines) if section.lines else section.extra
        print(f"{section.title}\n\n{shown}\n\n{section.text}\n", flush=True)
        write_section(section, given.output)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
