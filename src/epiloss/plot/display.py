"""The grouping diagram: a reliability diagram that also shows the regions of each level set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from epiloss.auditing import audit
from epiloss.errors import MissingExtraError, OptionError
from epiloss.results import Audit


@dataclass
class GroupingDisplay:
    """A grouping diagram, in the manner of :class:`sklearn.calibration.CalibrationDisplay`.

    ``audit`` holds everything that is drawn; ``ax_`` and ``figure_`` are set by :meth:`plot`.

    Examples
    --------
    >>> from epiloss.simulate import Sigmoid
    >>> sample = Sigmoid(perturbation="step").sample(3_000)
    >>> display = GroupingDisplay.from_audit(audit(sample.y, sample.scores, sample.X))
    >>> display.audit.n_samples
    3000
    """

    audit: Audit
    name: str | None = None
    ax_: Any = None
    figure_: Any = None

    @classmethod
    def from_audit(cls, result: Audit, *, name: str | None = None) -> GroupingDisplay:
        """Show a result that is there already."""
        if len(np.unique(result.regions.columns.get("class", np.array([""])))) > 1:
            raise OptionError(
                f"a grouping diagram shows one score, got task {result.task!r} with several classes. "
                "Audit with task='top-label', or one class at a time."
            )
        return cls(result, name)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        X: Any = None,
        *,
        name: str | None = None,
        ax: Any = None,
        partition: Any = "stump",
        **options: Any,
    ) -> GroupingDisplay:
        """Audit labels, scores and features, and draw; two regions per level set read best."""
        result = audit(y_true, y_prob, X, partition=partition, **options)
        return cls.from_audit(result, name=name).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, ax: Any = None, **options: Any
    ) -> GroupingDisplay:
        """Let a fitted classifier predict probabilities for ``X``, audit them, and draw."""
        if not hasattr(estimator, "predict_proba"):
            raise OptionError(
                f"the estimator must have predict_proba, got {type(estimator).__name__}. "
                "Use from_predictions with its scores."
            )
        options.setdefault("classes", list(estimator.classes_))
        scores = estimator.predict_proba(X)
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, scores, X, name=name, ax=ax, **options)

    def plot(self, ax: Any = None) -> GroupingDisplay:
        """Draw the calibration curve of the level sets, and their regions around it."""
        try:
            from matplotlib import pyplot
        except ImportError:
            raise MissingExtraError(
                "pictures need matplotlib, which is not installed. Run: pip install 'epiloss[plot]'"
            ) from None
        if ax is None:
            _, ax = pyplot.subplots(figsize=(5, 5), layout="constrained")
        levels, regions = self.audit.level_sets, self.audit.regions
        ax.plot([0, 1], [0, 1], color="0.6", linestyle=":", linewidth=1, label="perfectly calibrated")
        area = 8 + 120 * regions["n"] / regions["n"].max()
        ax.scatter(
            regions["score_mean"], regions["label_mean"], area, color="C1", alpha=0.6, linewidths=0,
            label="regions",
        )  # fmt: skip
        ax.plot(
            levels["score_mean"], levels["label_mean"], color="C0", marker="o", ms=4, label="level sets"
        )
        ax.set(
            xlabel="score", ylabel="rate of the positive class", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02)
        )
        losses = (
            f"calibration loss {self.audit.calibration_loss.value:z.4f}, "
            f"grouping loss ≥ {self.audit.grouping_loss.value:z.4f}"
        )
        ax.set_title(losses if self.name is None else f"{self.name}\n{losses}", fontsize="medium")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
