"""Every public name is documented: parameters, what is returned, what is alike, and a short example."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pytest

import epiloss

MODULES = ("datasets", "partition", "plot", "simulate", "testing")
INSIDE = {"pool_small_regions", "resolve_partition"}  # for the package itself
# what public functions return, and `epiloss` itself does not export
RETURNED = (
    "analysis.drift.SampleLosses",
    "analysis.tracking_result.Alarm",
    "auditing.verdict.Verdict",
    "estimation.losses.LevelSetLosses",
    "integrations.sklearn.LossScorer",
    "segments.result.Segment",
    "segments.result.Segments",
)
WITH_REFERENCES = ("audit", "compare", "Audit.repair", "RegionRecalibrator")
SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-+\n", re.MULTILINE)


def public() -> dict[str, Any]:
    """Return all public functions and classes by name."""
    found = {name: getattr(epiloss, name) for name in epiloss.__all__ if name not in MODULES}
    for name in MODULES:
        module = getattr(epiloss, name)
        listed = getattr(module, "__all__", None) or own_names(module)
        found |= {one: getattr(module, one) for one in listed if one not in INSIDE}
    for name in RETURNED:
        home, _, one = name.rpartition(".")
        found[one] = getattr(importlib.import_module(f"epiloss.{home}"), one)
    return found


def own_names(module: Any) -> list[str]:
    """Return the public functions and classes that a module without ``__all__`` defines."""
    return [
        name
        for name, one in vars(module).items()
        if not name.startswith("_") and getattr(one, "__module__", "") == module.__name__
    ]


def methods(name: str, cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods that a class of this package defines first, not those it overrides."""
    for own in sorted(dir(cls)):
        one, first = getattr(cls, own), [base for base in cls.__mro__ if own in vars(base)][-1]
        if own.startswith("_") or not (inspect.isfunction(one) or inspect.ismethod(one)):
            continue
        if one.__module__.startswith("epiloss") and first in (cls, *hidden_bases(cls)):
            yield f"{name}.{own}", one


def hidden_bases(cls: type) -> list[type]:
    """Return the bases that are not public themselves."""
    return [base for base in cls.__mro__[1:] if base not in PUBLIC.values()]


PUBLIC = public()
FUNCTIONS = {name: one for name, one in PUBLIC.items() if inspect.isfunction(one)}
CLASSES = {name: one for name, one in PUBLIC.items() if inspect.isclass(one)}
METHODS = dict(pair for name, cls in CLASSES.items() for pair in methods(name, cls))
PROPERTIES = {
    f"{name}.{own}": one
    for name, cls in CLASSES.items()
    for own, one in vars(cls).items()
    if not own.startswith("_") and isinstance(one, property | cached_property)
}


def sections(one: Any) -> dict[str, str]:
    """Return the sections of a docstring by their titles; the first one has none."""
    first, *rest = SECTION.split(inspect.getdoc(one) or "")
    return {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


def described(text: str) -> set[str]:
    """Return the names that the lines of a section begin with, as ``low, high : float`` does."""
    heads = re.findall(r"^(\S.*?)(?: : .*)?$", text, re.MULTILINE)
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def parameters(one: Any) -> set[str]:
    return set(inspect.signature(one).parameters) - {"self", "cls"}


def returned(one: Any) -> str:
    return str(inspect.signature(one).return_annotation)


def attributes(cls: type) -> set[str]:
    """Return what an object is made of: the fields of a data class, or what its constructor takes."""
    if dataclasses.is_dataclass(cls):
        names = {field.name for field in dataclasses.fields(cls)}
    else:
        names = parameters(cls) if "__init__" in vars(cls) else set()
    return {name for name in names if not (name.startswith("_") or name.endswith("_"))}


def test_the_walk_finds_what_is_public() -> None:
    assert {"audit", "compare", "regret", "load_census_income", "problems"} <= set(FUNCTIONS)
    assert {"Audit", "Estimate", "Segments", "Verdict", "GapsDisplay", "Tree"} <= set(CLASSES)
    assert {"Audit.repair", "Audit.to_json", "RegionStats.merge", "Brier.loss"} & set(METHODS) == {
        "Audit.repair",
        "Audit.to_json",
        "RegionStats.merge",
    }
    assert {"Audit.segments", "Audit.verdict", "RegionStats.effective_n"} <= set(PROPERTIES)


@pytest.mark.parametrize("name", sorted(PUBLIC | METHODS | PROPERTIES))
def test_it_begins_with_one_sentence(name: str) -> None:
    first = sections((PUBLIC | METHODS | PROPERTIES)[name])[""].split("\n\n")[0].strip()
    assert first.endswith(".")
    assert "\n" not in first


@pytest.mark.parametrize("name", sorted(FUNCTIONS | METHODS))
def test_every_parameter_is_described(name: str) -> None:
    one = (FUNCTIONS | METHODS)[name]
    assert parameters(one) <= described(sections(one).get("Parameters", ""))


@pytest.mark.parametrize("name", sorted(FUNCTIONS | METHODS))
def test_what_is_returned_is_described_where_something_is(name: str) -> None:
    one = (FUNCTIONS | METHODS)[name]
    there = {"Returns", "Yields"} & set(sections(one))
    assert bool(there) == (returned(one) != "None")


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_what_an_object_is_made_of_is_described(name: str) -> None:
    found = sections(CLASSES[name])
    known = described(found.get("Attributes", "")) | described(found.get("Parameters", ""))
    hidden = {"name"} if issubclass(CLASSES[name], epiloss.partition.Partitioner) else set()
    assert attributes(CLASSES[name]) - hidden <= known


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_what_is_alike_is_named(name: str) -> None:
    assert sections(PUBLIC[name]).get("See Also", "").strip()


@pytest.mark.parametrize("name", WITH_REFERENCES)
def test_the_source_of_a_method_is_given(name: str) -> None:
    assert "ICLR 2023" in sections((PUBLIC | METHODS)[name])["References"]


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_there_is_an_example(name: str) -> None:
    example = sections(PUBLIC[name]).get("Examples", "")
    assert ">>> " in example or (name == "extract" and "::\n" in example)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_is_in_an_example_of_its_own_or_of_its_class(name: str) -> None:
    cls, _, own = name.partition(".")
    shown = sections(METHODS[name]).get("Examples", "") + sections(CLASSES[cls]).get("Examples", "")
    inherited = vars(CLASSES[cls]).get(own) is None  # shown where it is defined
    assert inherited or re.search(rf"\b{own}\(", shown)


def leads_somewhere(target: str, one: Any, name: str) -> bool:
    """Tell whether a name is found as Sphinx looks for it: in the class, beside the object, or whole."""
    beside = [CLASSES.get(name.split(".")[0]), importlib.import_module(one.__module__), epiloss]
    if target.startswith("epiloss."):
        beside, target = [epiloss], target.removeprefix("epiloss.")
    return any(attribute(place, target) is not None for place in beside)


def attribute(one: Any, path: str) -> Any:
    """Return what a dotted path leads to from a module or class; None where it leads nowhere."""
    for part in path.split("."):
        one = getattr(one, part, None)
    return one


@pytest.mark.parametrize("name", sorted(PUBLIC | METHODS))
def test_what_is_referred_to_exists(name: str) -> None:
    """Names in See Also lead to something public, or to another package."""
    for line in sections((PUBLIC | METHODS)[name]).get("See Also", "").strip().split("\n"):
        for target in filter(None, (part.strip() for part in line.split(" : ")[0].split(","))):
            if not target.startswith("sklearn."):
                assert leads_somewhere(target, (PUBLIC | METHODS)[name], name), target
