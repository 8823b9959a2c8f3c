"""Components in configs: named bare or with fields, of an interface, and as they were written."""

from __future__ import annotations

from typing import Annotated, Protocol

import pytest
from small_tools import MODULE, Install, install, tools

from robo_rl.config import registry
from robo_rl.config.component import Component, component, default
from robo_rl.config.models import ConfigModel, ConfigTree, to_yaml, validate
from robo_rl.core.errors import ConfigError, PluginError

__all__ = ["install", "tools"]


class Tool(Protocol):
    name: str

    def grip(self) -> float: ...


class Held(ConfigModel):
    tool: Annotated[Component[Tool], component("tools")]


class Derived(ConfigModel):
    tool: Annotated[Component[ConfigModel], component("tools")]


class Experiment(ConfigModel):
    tool: Annotated[Component, component("tools")]
    arm: Annotated[Component, component("tools")] = default("arm", joints=6)
    spare: Annotated[Component, component("tools")] | None = None


def test_a_config_that_is_none_is_refused(install: Install):
    install("acme", "class Hand:\n    Config = dict(width=1)", hand="acme_plugin:Hand")
    install("bravo", arm="bravo_plugin:Arm")
    with pytest.raises(PluginError, match=r"Config of .*Hand.*: is no config; .* ConfigModel"):
        validate({"tool": "hand"}, Experiment)


def test_a_config_that_ignores_unknown_keys_is_refused(install: Install):
    plain = (
        "import pydantic\nclass Hand:\n    class Config(pydantic.BaseModel):\n        a: int = 1"
    )
    install("acme", plain, hand="acme_plugin:Hand", arm="acme_plugin:Hand")
    with pytest.raises(PluginError, match=r"is no config; .* derives from ConfigModel"):
        validate({"tool": "hand"}, Experiment)


def test_a_config_with_a_field_called_name_is_refused(install: Install):
    """It could never be set, and would take the place of the component's name in files."""
    install(
        "acme", MODULE.replace("width: float = 0.08", "name: str = 'x'"), hand="acme_plugin:Gripper"
    )
    with pytest.raises(PluginError, match="has a field 'name'"):
        validate({"tool": "hand"}, Experiment)


@pytest.mark.usefixtures("tools")
def test_a_call_that_does_not_fit_is_told_before_it_is_made():
    tool = validate({"tool": "gripper"}, Experiment).arm
    assert tool.accepts()
    assert not tool.accepts(1)
    with pytest.raises(PluginError) as caught:
        tool.build(1.0, spare="x")
    assert "expected a call with (Config, float, spare), found Arm(cfg)" in str(caught.value)


@pytest.mark.usefixtures("tools")
def test_a_component_is_named_bare_or_with_fields():
    made = validate({"tool": {"name": "gripper", "width": 0.05}}, Experiment)
    assert made.tool.build("x").cfg.width == 0.05
    assert made.tool.build("x").args == ("x",)
    assert made.arm.build().cfg.joints == 6
    assert validate({"tool": "arm"}, Experiment).tool.cfg.joints == 7
    assert validate({"tool": "gripper"}, Experiment).tool.cfg.width == 0.08


@pytest.mark.usefixtures("tools")
def test_an_object_without_config_is_built_as_it_is():
    made = validate({"tool": "robot"}, Experiment)
    assert made.tool.build() is registry.load("tools", "robot")
    with pytest.raises(ConfigError, match=r"tool\.width: unknown key"):
        validate({"tool": {"name": "robot", "width": 1}}, Experiment)


@pytest.mark.usefixtures("tools")
def test_a_component_serialises_to_what_it_is_made_of():
    made = validate({"tool": {"name": "arm", "speeds": [1, 2.5]}}, Experiment)
    dumped = made.model_dump(mode="json")
    assert dumped["tool"] == {"name": "arm", "joints": 7, "speeds": [1.0, 2.5]}
    assert validate(dumped, Experiment) == made
    assert "name: arm" in to_yaml(made)


@pytest.mark.usefixtures("tools")
def test_problems_inside_components_keep_their_path_and_line():
    values = {
        "tool": {"name": "gripper", "widht": 1},
        "arm": {"name": "arm", "speeds": [1, "fast"]},
        "spare": "grippper",
        "more": 1,
    }
    origins = {("tool", "widht"): "a.yaml:2", ("arm", "speeds"): "b.yaml:3", ("spare",): "c.yaml:4"}
    with pytest.raises(ConfigError) as caught:
        validate(ConfigTree(values, origins), Experiment)
    assert str(caught.value).splitlines() == [
        "a.yaml:2 tool.widht: unknown key; did you mean 'width'? known: width",
        "b.yaml:3 arm.speeds.1: expected a valid number, found 'fast' (str)",
        "c.yaml:4 spare: unknown tool 'grippper'; did you mean 'gripper'?"
        " known: arm, gripper, robot",
        "configuration more: unknown key; known: arm, spare, tool",
    ]


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("value", [3, None, [], {"width": 1}, {"name": None}])
def test_what_names_no_component_is_refused(value: object):
    with pytest.raises(ConfigError, match="expected the name of a tool"):
        validate({"tool": value}, Experiment)


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Held, r"tool 'gripper': 'acme_plugin:Gripper' is no tool; expected the methods of"
               r" .*Tool, found no grip\(\)"),
        (Derived, r"expected a class that derives from robo_rl\.config\.models\.ConfigModel"),
    ],
)  # fmt: skip
def test_what_is_not_of_the_interface_of_its_field_is_refused(model, words):
    with pytest.raises(PluginError, match=words):
        validate({"tool": "gripper"}, model)


def test_a_class_or_an_object_with_the_methods_of_a_protocol_is_taken(install: Install):
    module = "class Tong:\n    def grip(self):\n        return 1.0\n\nTONG = Tong()\n"
    install("acme", module, gripper="acme_plugin:Tong", spare="acme_plugin:TONG")
    for name in ("gripper", "spare"):
        assert validate({"tool": name}, Held).tool.build().grip() == 1.0
