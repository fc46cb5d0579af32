"""What a benchmark tells: printed lines that can be saved as a page, and verdicts on targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from epiloss._saving import write_text


@dataclass(frozen=True)
class Verdict:
    """A target, whether it is met, and what was found."""

    target: str
    met: bool
    found: str

    def __str__(self) -> str:
        return f"{'met   ' if self.met else 'MISSED'}  {self.target}: {self.found}"

    @classmethod
    def on_all(cls, target: str, failed: Sequence[str], total: int) -> Verdict:
        """Return the verdict on a target that none of so many may fail."""
        return cls(target, not failed, f"{len(failed)} of {total} fail{_in_brackets(failed)}")


@dataclass
class Report:
    """Prints, and remembers what was printed."""

    told: list[str] = field(default_factory=list)

    def tell(self, text: str) -> None:
        """Print a line or more."""
        print(text, flush=True)
        self.told.append(text)

    def save(self, file: Path, introduction: str) -> None:
        """Write what was printed as a page."""
        write_text(file, "\n".join([introduction, "```", *self.told, "```", ""]))


def _in_brackets(names: Sequence[str]) -> str:
    return f" ({'; '.join(names)})" if names else ""
