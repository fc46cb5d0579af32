"""Simulated problems whose calibration loss and grouping loss are known exactly.

Every problem knows the distribution of its score S, its calibrated score C = E[Y|S] and its true
probability Q = P(Y=1|X). The exact losses are integrals over one or two dimensions, and so have no
sampling error:

    E loss(S, Y)  =  E d(S, C)  +  E d(C, Q)  +  E e(Q)
      score        calibration     grouping    irreducible
"""

from __future__ import annotations

from typing import get_args

from epiloss.simulate.base import Problem, Sample, Truth
from epiloss.simulate.binary import Link, LinkName, Sigmoid
from epiloss.simulate.multiclass import MultiClass

__all__ = ["Link", "MultiClass", "Problem", "Sample", "Sigmoid", "Truth", "problems"]


def problems() -> dict[str, Problem]:
    """Return the problems of the paper, and variants of them, by name.

    Returns
    -------
    dict of str to Problem
        The problems by name.

    See Also
    --------
    Sigmoid, Link : create other problems.

    References
    ----------
    Perez-Lebel, Le Morvan and Varoquaux, "Beyond calibration: estimating the grouping loss of modern
    neural networks", ICLR 2023.

    Examples
    --------
    >>> problems()["link-square"]
    Link(link='square')
    """
    return {
        **{f"link-{name}": Link(name) for name in get_args(LinkName)},
        "sigmoid-smooth": Sigmoid(),
        "sigmoid-step": Sigmoid(perturbation="step"),
        "sigmoid-smooth-optimal-accuracy": Sigmoid(optimal_accuracy=True),
        "sigmoid-step-optimal-accuracy": Sigmoid(perturbation="step", optimal_accuracy=True),
        "sigmoid-noise-features": Sigmoid(n_noise=8),
        "sigmoid-ten-dimensions": Sigmoid(dimension=10),
        "sigmoid-overconfident": Sigmoid(miscalibration=2.0),
        "sigmoid-underconfident": Sigmoid(miscalibration=0.5),
        "sigmoid-imbalanced": Sigmoid(intercept=-4.0),
        "sigmoid-null": Sigmoid(grouping=0.0),
        "sigmoid-overconfident-null": Sigmoid(grouping=0.0, miscalibration=2.0),
        "three-classes": MultiClass(n_classes=3),
        "ten-classes": MultiClass(n_classes=10, separation=6.0),
        "three-classes-null": MultiClass(n_classes=3, grouping=0.0),
    }
