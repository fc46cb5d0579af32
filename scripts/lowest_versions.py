"""Print pip constraints that hold every dependency at the lowest version that pyproject.toml allows.

These are the runtime dependencies, those of the extras ``files``, ``plot`` and ``images``, and pandas,
polars and pytest of the extra ``test``. scripts/test_lowest.sh installs them.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

EXTRAS = ("files", "plot", "images")
TEST_TOOLS = ("pandas", "polars", "pytest")
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(?P<bounds>[^;]*)")


def lowest(requirement: str) -> tuple[str, str]:
    """Return the name of a requirement and its lowest allowed version."""
    match = REQUIREMENT.match(requirement)
    bound = re.search(r"(?:>=|==|~=)\s*([^\s,]+)", match["bounds"]) if match else None
    if match is None or bound is None:
        raise SystemExit(f"{requirement!r} in pyproject.toml has no lower bound: add one with '>='.")
    return match["name"].lower(), bound[1]


def constraints(pyproject: Path) -> Iterator[str]:
    """Yield one constraint ``name==version`` for each dependency."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    optional = [one for extra in EXTRAS for one in extras[extra]]
    tools = [tool for tool in extras["test"] if re.split(r"[^\w-]", tool)[0] in TEST_TOOLS]
    for requirement in [*project["dependencies"], *optional, *tools]:
        name, version = lowest(requirement)
        yield f"{name}=={version}"


if __name__ == "__main__":
    print("\n".join(constraints(Path(__file__).parents[1] / "pyproject.toml")))
