"""The tables that the coverage experiment prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from coverage_settings import SETTINGS
from coverage_targets import BOUNDS, GROUPING_LOSSES, Line

UNIT = 1e-4  # of the printed tables; the CSV file has plain units


def as_table(lines: Sequence[Line], peer: bool | None) -> str:
    """Return the tables of the grouping loss, the other losses and, unless None, the peer."""
    cells: dict[tuple[str, int], dict[str, Line]] = {}
    for line in lines:
        cells.setdefault((line.setting, line.n), {})[line.quantity] = line
    width, most = max(len(name) for name in SETTINGS), max(line.repetitions for line in lines)
    text = [
        f"{most} repetitions; losses x 1e-4. Standard error of a frequency near 0.95: "
        f"{np.sqrt(0.95 * 0.05 / most):.3f}.",
        *sorted({_fewer(line) for line in lines if line.repetitions < most}),
        "",
    ]
    if any(line.quantity in GROUPING_LOSSES for line in lines):
        text += [*_grouping_table(cells, width), ""]
    header = f"{'true':>8} {'bias ± se':>15} {'cover':>6}    "
    text += ["The calibration loss (left) and the score (right), compared with the truth."]
    text.append(f"{'':{width}} {'n':>6}  " + header * 2)
    for (setting, n), found in cells.items():
        both = (found["calibration_loss"], found["score"])
        parts = [f"{one.truth / UNIT:8.1f} {_bias(one)} {_share(one.coverage)}    " for one in both]
        text.append(f"{setting:{width}} {n:>6}  " + "".join(parts))
    if peer is None:
        return "\n".join(text)
    return "\n".join([*text, "", *(_peer_table(cells, width) if peer else _no_peer())])


def _grouping_table(cells: Mapping[tuple[str, int], Mapping[str, Line]], width: int) -> list[str]:
    text = [
        "The grouping loss: two lower bounds and the twin estimate. bias, rmse, tight: against the true",
        "loss; cover: of the 95% interval, for a bound of the repetition's own regions or predictions,",
        "for the twin estimate of its own mean; valid: lower limit (twin: one-sided) <= true",
        "loss; reject: by the 5% test, its level in the null settings and its power elsewhere.",
        f"{'':{width}} {'n':>6} {'true':>6}  {'':9} {'bias ± se':>15} {'rmse':>6} {'tight':>6} "
        f"{'cover':>6} {'on rows':>7} {'valid':>6} {'reject':>6}",
    ]
    for (setting, n), found in cells.items():
        for name in GROUPING_LOSSES:
            one = found[name]
            first = f"{setting:{width}} {n:>6} {one.truth / UNIT:6.1f}"
            text.append(
                f"{first if name == BOUNDS[0] else ' ' * len(first)}  {name:9} {_bias(one)} "
                f"{one.rmse / UNIT:6.1f} {_share(one.tightness)} {_share(one.coverage)} "
                f"{_share(one.coverage_on_rows):>7} {_share(one.validity)} {_share(one.rejected)}"
            )
    return text


def _fewer(line: Line) -> str:
    share = np.sqrt(0.95 * 0.05 / line.repetitions)
    return f"{line.quantity} at {line.n:,} rows: {line.repetitions} repetitions, {share:.3f}."


def _no_peer() -> list[str]:
    return ["glest is not installed. To compare with it: pip install glest==0.0.1."]


def _peer_table(cells: Mapping[tuple[str, int], Mapping[str, Line]], width: int) -> list[str]:
    text = [
        "glest on the same rows, at its defaults: its RMSE divided by ours.",
        f"{'':{width}} {'n':>6} {'answers':>8} {'/ partition':>12} {'/ crossfit':>12} {'/ twin':>12}",
    ]
    for (setting, n), found in cells.items():
        ratios = "".join(f" {found[name].peer_rmse_ratio:12.2f}" for name in GROUPING_LOSSES)
        text.append(f"{setting:{width}} {n:>6} {found['partition'].peer_repetitions:>8}{ratios}")
    return text


def _bias(line: Line) -> str:
    return f"{line.bias / UNIT:+8.1f} ± {line.stderr / UNIT:<4.1f}"


def _share(value: float) -> str:
    return " " * 6 if np.isnan(value) else f"{value:6.3f}"
