"""What the pictures of the studies show, by the name of their file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Caption(NamedTuple):
    """The alternative text of a picture, and what a reader must know to read it."""

    alternative: str
    text: str


_BARS = "Bars show estimates, and lines their 95% intervals."
_DIAGRAM = (
    "In each level set, cross-fitted models divide the rows into halves of which they expect high and "
    "low rates, in colour if the halves differ significantly. Without grouping loss, both would lie on "
    "the black curve but for chance."
)
_REGIONS = (
    "In each level set, as in the paper, a stump (left) or k-means (right) learns two regions from one "
    "half of the rows, and the other half gives their rates, in colour if they differ significantly."
)
CAPTIONS: Mapping[str, Caption] = {
    "many-losses": Caption(
        "Losses of 14 networks on clean, corrupted and snowy images, before and after recalibration",
        "Networks in the order of decreasing accuracy, with 95% intervals. The axis is linear up to "
        "0.02 and logarithmic beyond.",
    ),
    "many-accuracy": Caption(
        "Grouping loss against accuracy on clean, corrupted and snowy images",
        "Filled: by twins, with 95% intervals, for which the rank correlation is given. Hollow: by "
        "trees.",
    ),
    "many-shifts": Caption(
        "Grouping loss on snow against merged corruptions, and on these against clean images",
        "Estimates by twins, with 95% intervals. Left: one corruption against a mixture of 19. Right: "
        "with shift against without.",
    ),
    "many-recalibration": Caption(
        "Grouping loss after recalibration against before, by trees and by twins",
        "Each network on clean, corrupted and snowy images. On the dotted line, recalibration does not "
        "change the estimate.",
    ),
    "many-corruptions": Caption(
        "Grouping loss of each network under each of 19 corruptions",
        "Estimates by twins from the same images, with networks in the order of accuracy on merged "
        "corruptions, and corruptions in that of the mean grouping loss.",
    ),
    "many-diagrams": Caption(
        "Grouping diagrams of one network on clean, corrupted and snowy images", _DIAGRAM
    ),
    "many-diagrams-merged": Caption(
        "Grouping diagrams of all networks on images with one of 19 corruptions each",
        f"Networks in the order of decreasing accuracy. {_DIAGRAM}",
    ),
    "known-groups": Caption(
        "Grouping loss that the corruption explains, that features explain, and that both explain",
        "Estimates by twins, with 95% intervals.",
    ),
    "known-heterogeneity": Caption(
        "How far the rate of each corruption is from that of all images with equal scores",
        "Blue: the network is right more often than on other images with the same scores; orange: less "
        "often. Differences in parentheses are not significant.",
    ),
    "fashion-mnist-losses": Caption("Losses on clean and on corrupted images", _BARS),
    "fashion-mnist-small-cnn-clean": Caption(
        "Grouping diagrams on clean images, with regions by a stump and by k-means", _REGIONS
    ),
    "fashion-mnist-small-cnn-corrupted": Caption(
        "Grouping diagrams on corrupted images, with regions by a stump and by k-means",
        f"One random corruption in each image. {_REGIONS}",
    ),
    "fashion-mnist-groups": Caption(
        "How far the rate of each corruption is from that of all images with equal scores",
        "Blue: the network is right more often than on other images with the same scores; orange: less "
        "often; grey: the difference is not significant.",
    ),
    "lid-losses": Caption("Losses of the language identifier on four kinds of text", _BARS),
    "lid-diagrams": Caption("Grouping diagrams of the language identifier", _DIAGRAM),
    "wordnet-losses": Caption(
        "Losses of two models on seen and unseen topics",
        f"{_BARS} Hollow: the values that the paper prints for BART on Yahoo Answers.",
    ),
    "wordnet-diagrams": Caption("Grouping diagrams of two models on seen and unseen topics", _DIAGRAM),
    "answers-losses": Caption("Losses of the answers on seen and unseen topics", _BARS),
    "ratings-bounds": Caption(
        "Estimates of the grouping loss from each kind of features, and the measured loss",
        "Grey bands and horizontal lines are 95% intervals.",
    ),
    "examples-wrong-everywhere": Caption(
        "A calibrated score with the best possible accuracy that is wrong nearly everywhere",
        "Left: the score and the true probability. Right: rates at equal scores, of all rows and of the "
        "two sides of the feature.",
    ),
    "examples-two-regions": Caption(
        "Rows of equal scores with two true probabilities",
        "The step: the rows scored about 0.6 consist of two regions with other probabilities.",
    ),
    "examples-binning": Caption(
        "The grouping loss and the loss induced by binning against the number of bins",
        "Lines are exact values, and points are estimates.",
    ),
    "examples-links": Caption(
        "Four links: true probabilities above, rates at equal scores below",
        "All four scores are calibrated: the black curves lie on the diagonal but for chance.",
    ),
    "examples-sigmoids": Caption(
        "Four problems with two features: errors above, grouping diagrams below", _DIAGRAM
    ),
}
