"""Options are declared in one place: what takes them takes the same ones, and unknown ones are named."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import epiloss
from epiloss import OptionError
from epiloss.estimation.options import METHODS, Options

OWN = ("subgroups", "sample_weight", "clusters", "display")  # data of rows beside the options


def keywords(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters that must be named."""
    parameters = inspect.signature(function).parameters
    return {name: one for name, one in parameters.items() if one.kind is inspect.Parameter.KEYWORD_ONLY}


def test_audit_declares_the_options_as_they_are_read_and_the_data_of_rows() -> None:
    declared, read = keywords(epiloss.audit), keywords(Options.read)
    assert set(declared) == {*read, *OWN}
    for name, one in read.items():
        assert declared[name].default == one.default, name
        assert declared[name].annotation == one.annotation, name
    assert all(declared[name].default is None for name in OWN)


def test_audit_has_few_enough_parameters_to_be_read() -> None:
    parameters = inspect.signature(epiloss.audit).parameters
    assert list(parameters)[:3] == ["y_true", "y_prob", "X"]
    assert len(parameters) <= 28


def test_audit_hands_on_every_option_under_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Enough(Exception):  # noqa: N818  # no error
        pass

    seen: dict[str, Any] = {}

    def noted(**given: Any) -> Options:
        seen.update(given)
        raise Enough

    given = {name: object() for name in keywords(Options.read)}
    monkeypatch.setattr(Options, "read", noted)
    with pytest.raises(Enough):
        epiloss.audit(None, None, **given)  # type: ignore[arg-type]  # marks instead of values
    assert seen == given


def test_every_option_is_explained_where_it_is_declared() -> None:
    text = inspect.getdoc(epiloss.audit) or ""
    for name in inspect.signature(epiloss.audit).parameters:
        assert f"\n{name} : " in text, name


# unknown options, which are told before any data are looked at

CALLS: dict[str, Callable[..., Any]] = {
    "compare": lambda **options: epiloss.compare(None, {}, None, **options),
    "drift": lambda **options: epiloss.drift((), (), **options),
    "audit_table": lambda **options: epiloss.audit_table(None, label="y", score="p", **options),
    "RegionPlan.learn": lambda **options: epiloss.RegionPlan.learn(None, None, None, **options),
}
each_call = pytest.mark.parametrize("name", CALLS)
HINTS = {
    "bins": "n_bins",
    "binning": "strategy",
    "level": "confidence_level",
    "alpha": "confidence_level",
    "region_ratio": "partition",
    "seed": "random_state",
    "n_bin": "n_bins",
    "ruel": "rule",
    "tolerence": "tolerance",
}
OWN_HINTS = [
    ("compare", "groups", "subgroups"),
    ("compare", "sensitive_features", "subgroups"),
    ("compare", "base_line", "baseline"),
    ("compare", "displays", "display"),
    ("audit_table", "groups", "subgroups"),
    ("audit_table", "sensitive_features", "subgroups"),
    ("audit_table", "weight", "sample_weight"),
    ("audit_table", "feature", "features"),
    ("audit_table", "checkpoints", "checkpoint"),
    ("RegionPlan.learn", "sample_weights", "sample_weight"),
    ("RegionPlan.learn", "cluster", "clusters"),
]


def said_of(name: str, option: str) -> str:
    with pytest.raises(OptionError) as caught:
        CALLS[name](**{option: 3})
    return str(caught.value)


@each_call
@pytest.mark.parametrize(("option", "meant"), HINTS.items())
def test_an_unknown_option_is_told_with_the_one_that_was_meant(
    name: str, option: str, meant: str
) -> None:
    assert said_of(name, option) == f"{name} has no option {option!r}. Did you mean {meant!r}?"


@pytest.mark.parametrize(("name", "option", "meant"), OWN_HINTS)
def test_what_a_function_takes_beside_the_options_is_hinted_at_too(
    name: str, option: str, meant: str
) -> None:
    assert said_of(name, option) == f"{name} has no option {option!r}. Did you mean {meant!r}?"


@each_call
@pytest.mark.parametrize("option", ["swap", "zzz"])
def test_an_unknown_option_like_no_other_is_told_with_those_that_there_are(
    name: str, option: str
) -> None:
    said = said_of(name, option)
    assert said.startswith(f"{name} has no option {option!r}. Its options are task, ")
    assert all(f" {known}" in said for known in keywords(Options.read))
    assert said.endswith(".")
    assert "\n" not in said


@pytest.mark.parametrize("name", ["drift", "RegionPlan.learn"])
@pytest.mark.parametrize("option", ["groups", "sensitive_features", "subgroups"])
def test_nothing_is_hinted_at_that_a_function_does_not_take(name: str, option: str) -> None:
    said = said_of(name, option)
    assert "Did you mean" not in said
    assert "subgroups" not in said.split("Its options are")[1]


@each_call
def test_known_options_are_checked_wherever_they_are_given(name: str) -> None:
    assert "tolerance must lie in (0, 1), got 3" in said_of(name, "tolerance")
    choices = f"{', '.join(map(repr, METHODS[:-1]))} or {METHODS[-1]!r}"
    assert said_of(name, "method") == f"method must be {choices}, got 3."
