"""Names to objects: near misses, clashes, broken plugins, missing extras, components."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from typing import Annotated

import pytest
import tomllib
from small_tools import Install, install, tools

from robo_rl.config import registry
from robo_rl.config.component import Component, component, default
from robo_rl.config.models import ConfigModel, validate
from robo_rl.core.errors import DeviceError, Notice, PluginError

__all__ = ["install", "tools"]


class Experiment(ConfigModel):
    tool: Annotated[Component, component("tools")]
    arm: Annotated[Component, component("tools")] = default("arm", joints=6)
    spare: Annotated[Component, component("tools")] | None = None


@pytest.mark.usefixtures("tools")
def test_a_name_is_imported_only_when_loaded():
    assert registry.names("tools") == ["arm", "gripper", "robot"]
    assert "acme_plugin" not in sys.modules
    assert registry.load("tools", "gripper").__name__ == "Gripper"


@pytest.mark.usefixtures("tools")
def test_a_mistyped_name_is_corrected():
    with pytest.raises(PluginError) as caught:
        registry.load("tools", "griper")
    assert str(caught.value) == (
        "unknown tool 'griper'; did you mean 'gripper'? known: arm, gripper, robot"
    )


def test_a_name_of_two_plugins_is_to_be_qualified(install: Install):
    install("acme", hand="acme_plugin:Gripper", arm="acme_plugin:Arm")
    install("bravo-tools", hand="bravo_tools_plugin:Arm")
    with pytest.raises(PluginError) as caught:
        registry.load("tools", "hand")
    assert str(caught.value) == (
        "tool 'hand' is provided by acme and bravo-tools; say which: acme:hand or bravo-tools:hand"
    )
    assert registry.names("tools") == ["acme:hand", "arm", "bravo-tools:hand"]
    for name, kind in {"acme:hand": "Gripper", "Bravo_Tools:hand": "Arm"}.items():
        assert registry.load("tools", name).__name__ == kind
        made = validate({"tool": name}, Experiment).tool
        assert (made.name, made.cls.__name__) == (name, kind)


def test_a_built_in_name_stays_ours(install: Install):
    """Of two spellings of one of ours the bare one is kept, so that hashes stay."""
    install("acme", hand="acme_plugin:Gripper", arm="acme_plugin:Arm")
    install("robo-rl", hand="robo_rl_plugin:Arm")
    with pytest.warns(Notice, match="'hand' is that of robo-rl; others are named acme:hand"):
        assert registry.load("tools", "hand").__name__ == "Arm"
    assert registry.load("tools", "acme:hand").__name__ == "Gripper"
    assert registry.names("tools") == ["acme:hand", "arm", "hand"]
    assert registry.ambiguous_names("tools") == {"hand": ["acme:hand", "hand"]}
    assert validate({"tool": "robo-rl:hand"}, Experiment).tool.name == "hand"


def test_what_clashes_with_nothing_warns_of_nothing(install: Install):
    install("acme", hand="acme_plugin:Gripper")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert registry.load("tools", "hand") is registry.load("tools", "acme:hand")


@pytest.mark.usefixtures("tools")
def test_a_mistyped_qualified_name_is_corrected():
    with pytest.raises(PluginError, match="did you mean 'acme:gripper'"):
        registry.load("tools", "acne:gripper")


@pytest.mark.usefixtures("tools")
def test_a_loaded_component_knows_its_name():
    for name in registry.names("tools"):
        assert registry.name_of("tools", registry.load("tools", name)) == name
    with pytest.raises(PluginError, match=r"^Path: is registered under no name; .*robo_rl\.tools"):
        registry.name_of("tools", Path)


def test_of_several_names_that_of_ours_is_kept(install: Install):
    """A plugin that names our class again may be removed, and its name with it."""
    install("acme", alias="robo_rl_plugin:Arm")
    install("robo-rl", arm="robo_rl_plugin:Arm")
    loaded = registry.load("tools", "alias")
    assert registry.name_of("tools", loaded) == "arm"


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("1 / 0", "acme_plugin.py:1: ZeroDivisionError: division by zero"),
        ("\nimport no_such_thing", "acme_plugin.py:2: ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("x = 1", "AttributeError"),
        ("(", "SyntaxError"),
    ],
)
def test_a_broken_plugin_is_named_with_its_cause(install: Install, module: str, said: str):
    install("acme", module, hand="acme_plugin:Hand")
    with pytest.raises(PluginError) as caught:
        registry.load("tools", "hand")
    assert "'hand = acme_plugin:Hand' of the distribution 'acme' fails to load" in str(caught.value)
    assert said in str(caught.value)
    assert caught.value.__cause__ is not None


def test_a_missing_extra_is_named(install: Install, monkeypatch: pytest.MonkeyPatch):
    install("acme", "import zarr.storage", hand="acme_plugin:Hand")
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(DeviceError) as caught:
        registry.load("tools", "hand")
    assert str(caught.value) == "this needs the extra 'train': pip install 'robo-rl[train]'"


def test_every_extra_brings_what_is_said_to_come_with_it():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = {
        extra: {re.split(r"[\[<>=!~; ]", each)[0] for each in wanted}
        for extra, wanted in project["optional-dependencies"].items()
    }
    extras["train"] |= extras["sim"]
    other = {"numcodecs": "zarr", "cv2": "opencv-python-headless", "warp": "warp-lang"}
    by_hand = {"metaworld"}  # pins an old MuJoCo: installed with --no-deps, as the error says
    for module, extra in registry.EXTRA_OF.items():
        if module in by_hand:
            assert "--no-deps" in str(registry.missing_extra(ModuleNotFoundError(name=module)))
            continue
        wanted = other.get(module, module.replace("_", "-"))
        assert wanted in extras[extra], f"{module} is not in the extra {extra}"


def test_singulars():
    assert [registry.singular(kind) for kind in ("tasks", "policies")] == ["task", "policy"]
