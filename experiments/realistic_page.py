"""The results on realistic scores as a part of the page docs/realistic.md."""

from __future__ import annotations

from collections.abc import Sequence

from realistic import COVERAGE, LEVEL, WRONG, Line, as_table

BEGIN, END = "<!-- results: written by experiments/realistic.py -->", "<!-- end of results -->"


def with_results(text: str, lines: Sequence[Line]) -> str:
    """Return the page with the results between its markers replaced.

    Examples
    --------
    >>> with_results("no markers", [])
    Traceback (most recent call last):
        ...
    ValueError: the page must have '<!-- results: written by experiments/realistic.py -->' and ...
    """
    before, mark, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise ValueError(f"the page must have {BEGIN!r} and {END!r}. Add them where the results go.")
    return f"{before}{BEGIN}\n\n{in_words(lines)}\n\n```\n{as_table(lines)}\n```\n\n{END}{after}"


def in_words(lines: Sequence[Line]) -> str:
    """Say how many cells meet the targets, and by how much the others miss them."""
    missed = [line for line in lines if line.misses]
    met = f"{len(lines) - len(missed)} of {len(lines)} cells meet all targets"
    text = [f"**{met}** within two standard errors." + (" The others:" if missed else "")]
    if missed:
        text += ["", "| setting | rows | missed | coverage | limit | test rejects | repair | fine |"]
        text += ["| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |"]
    for line in missed:
        shares = (line.coverage, line.limit, line.rejected, line.repair, line.fine)
        shown = " | ".join(f"{share:.3f}" for share in shares)
        text.append(f"| {line.setting} | {line.n:,} | {line.misses} | {shown} |")
    nothing = [line for line in lines if line.grouping_truth == 0]
    low, high = COVERAGE
    counts = [
        f"the calibration loss is covered too rarely in {sum(x.coverage < low for x in lines)} cells",
        f"and too often in {sum(x.coverage > high for x in lines)}",
        f"the test rejects too often in {sum(x.rejected > LEVEL for x in nothing)} of the "
        f"{len(nothing)} cells without a grouping loss",
        f"false repairs are too frequent in {sum(x.repair > WRONG for x in lines)} cells",
        f"and wrong 'fine' or 'small' in {sum(x.fine > WRONG for x in lines)}",
    ]
    return "\n".join([*text, "", f"Without the allowance of two standard errors, {', '.join(counts)}."])
