"""References to other keys of a config."""

from __future__ import annotations

from typing import Any

import pytest

from robo_rl.config.compose import overlay, resolve_tree
from robo_rl.config.interpolation import interpolate
from robo_rl.core.errors import ConfigError


def values(*overrides: str) -> dict[str, Any]:
    return resolve_tree(overlay(overrides)).values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${a.n}", 3),
        ("${a}", {"n": 3, "t": [1.5, True]}),
        ("${a.t.0}", 1.5),
        ("${a.t[1]}", True),
        ("x ${a.n}/${a.t.0}", "x 3/1.5"),
        ("[0, '${a.n}']", [0, 3]),
        ("\\${a.n}", "${a.n}"),
        ("\\\\${a.n}", "\\${a.n}"),
        ("$a {n}", "$a {n}"),
        ("${again}", 3),
    ],
)
def test_references_take_the_values_of_other_keys(text: str, value: object):
    found = values("a={n: 3, t: [1.5, true]}", "again='${a.n}'", f"b={text}")
    assert found["b"] == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${c}", "'${c}' names no key of this config; known: a, b"),
        ("${a.n.m}", "'${a.n.m}' names no key"),
        ("${a.t.2}", "'${a.t.2}' names no key"),
        ("${a.t.²}", "names no key"),
        ("${oc.env:HOME}", "'${oc.env:HOME}' names no key"),
        ("${b}", "'${b}' leads back to itself"),
        ("['${b}']", "'${b}' leads back to itself"),
        ("x ${a}", "'${a}' within a text is no scalar"),
        ("x ${a.n", "a reference that is not one; expected ${dotted.key}"),
        ("${a.${a.n}}", "a reference that is not one"),
    ],
)
def test_what_is_no_reference_is_refused_with_its_place(text: str, said: str):
    with pytest.raises(ConfigError) as caught:
        values("a={n: 3, t: [1.5, true]}", f"b={text}")
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"override 'b={text}' b")


def test_references_cannot_expand_without_bound():
    lists: dict[str, Any] = {"l0": ["x"]}
    texts: dict[str, Any] = {"l0": "x"}
    for i in range(1, 12):
        lists[f"l{i}"] = [f"${{l{i - 1}}}"] * 9
        texts[f"l{i}"] = f"${{l{i - 1}}}" * 9
    for values in (lists, texts):
        with pytest.raises(ConfigError, match="bring more than"):
            interpolate(values, lambda _: "here")
    long = {"l0": "x", **{f"l{i}": f"${{l{i - 1}}}" for i in range(1, 200)}}
    with pytest.raises(ConfigError, match="references to references"):
        interpolate(long, lambda _: "here")
