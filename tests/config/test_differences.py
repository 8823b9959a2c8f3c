"""Where two trees of plain values differ, and which differences change no result."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from pydantic import Field

from robo_rl.config.component import component
from robo_rl.config.differences import (
    UNSET,
    Difference,
    differences,
    effective_settings,
    paths_without_effect,
    without_paths,
)
from robo_rl.config.models import ConfigModel, OmitsDefaults
from robo_rl.core.errors import PluginError


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [(("a", "c"), 2, 3)]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [(("a",), [1, 2], [1, 3])]),
        ({"a": {"b": 1}}, {}, [(("a", "b"), 1, UNSET)]),
        ({}, {"a": {}}, [(("a",), UNSET, {})]),
        ({"a": None}, {}, [(("a",), None, UNSET)]),
        ({"a": {"b": 1}}, {"a": "x"}, [(("a",), {"b": 1}, "x")]),
        ({"a": {"b": [{}]}}, {"a": {"b": [{}]}}, []),
    ],
)
def test_the_innermost_keys_are_named(one: Any, other: Any, found: list[tuple[Any, ...]]):
    assert list(differences(one, other)) == [Difference(*each) for each in found]
    swapped = [(path, second, first) for path, first, second in found]
    assert list(differences(other, one)) == [Difference(*each) for each in swapped]


def test_a_key_is_dotted_and_one_that_is_not_there_is_unset():
    (found,) = differences({"b": {"c": 1}}, {}, ("a",))
    assert f"{found.key}: {found.other}" == "a.b.c: unset"


class Inner(ConfigModel):
    limit_s: float = 1.0
    size: int = 1

    without_effect: ClassVar[tuple[str, ...]] = ("limit_s",)


class Outer(Inner, OmitsDefaults):
    every: int = 10
    inner: Inner = Inner()
    named: dict[str, Inner] = Field(default_factory=dict)
    several: tuple[Inner, ...] = ()

    without_effect: ClassVar[tuple[str, ...]] = ("every",)
    omitted: ClassVar[tuple[str, ...]] = ("every", "inner")


def test_fields_without_effect_have_their_defaults_at_every_depth():
    slow, plain = {"limit_s": 9.0, "size": 2}, {"limit_s": 1.0, "size": 2}
    cfg = Outer.model_validate({**slow, "every": 7, "named": {"a": slow}, "several": [slow]})
    found = effective_settings(cfg).model_dump(mode="json")
    assert found == {**plain, "named": {"a": plain}, "several": [plain]}
    assert effective_settings(cfg.model_copy(update={"inner": Inner(limit_s=3.0)})).inner == Inner()
    assert cfg.every == 7, "the config itself stays"


def test_fields_without_effect_are_known_by_their_paths():
    env = component("envs").make({"name": "sim"})
    found = {*paths_without_effect({"a": Outer(named={"b": Inner()}), "env": env})}
    own = {("a", *path) for path in (("every",), ("limit_s",), ("inner", "limit_s"))}
    processes = {("rendering", name) for name in ("workers", "timeout_s", "start_timeout_s")}
    threads = ("env", "backend", "threads")
    assert found == own | {("a", "named", "b", "limit_s"), threads} | {
        ("env", *path) for path in processes
    }
    tree = {"a": {"every": 3, "size": 4}, "every": 5}
    assert without_paths(tree, found) == {"a": {"size": 4}, "every": 5}


@pytest.mark.parametrize("name", ["limit", "size"])
def test_a_field_without_effect_exists_and_has_a_default(name: str):
    class Wrong(ConfigModel):
        size: int

        without_effect: ClassVar[tuple[str, ...]] = (name,)

    with pytest.raises(PluginError, match=f"Wrong: without_effect: names a field .* {name}"):
        effective_settings(Wrong(size=1))
