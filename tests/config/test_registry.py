"""Names to objects: near misses, clashes, broken plugins, missing extras, components."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Protocol

import pytest
import tomllib

from robo_rl.config import registry
from robo_rl.config.models import ConfigModel, ConfigTree, to_yaml, validate
from robo_rl.config.registry import Component, component, default
from robo_rl.core.errors import ConfigError, DeviceError, Notice, PluginError

Install = Callable[..., None]

MODULE = """\
from robo_rl.config.models import ConfigModel

class Gripper:
    class Config(ConfigModel):
        width: float = 0.08

    def __init__(self, cfg, *args):
        self.cfg, self.args = cfg, args

class Arm:
    class Config(ConfigModel):
        joints: int = 7
        speeds: tuple[float, ...] = (1.0, 2.0)

    def __init__(self, cfg):
        self.cfg = cfg

ROBOT = object()
"""


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


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes distributions whose entry points are of the kind ``tools``."""
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._found.cache_clear()

    def make(distribution: str, module: str = "", **points: str) -> None:
        stem = distribution.replace("-", "_")
        info = tmp_path / f"{stem}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )
        lines = [f"{name} = {value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text("[robo_rl.tools]\n" + "\n".join(lines))
        name = f"{stem}_plugin"
        (tmp_path / f"{name}.py").write_text(module or MODULE)
        monkeypatch.delitem(sys.modules, name, raising=False)

    return make


@pytest.fixture
def tools(install: Install):
    install("acme", gripper="acme_plugin:Gripper", arm="acme_plugin:Arm", robot="acme_plugin:ROBOT")
    yield
    registry._found.cache_clear()


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
def test_a_loaded_component_knows_its_name():
    for name in registry.names("tools"):
        assert registry.name_of("tools", registry.load("tools", name)) == name
    with pytest.raises(PluginError, match=r"^Path: is registered under no name; .*robo_rl\.tools"):
        registry.name_of("tools", Path)


@pytest.mark.usefixtures("tools")
def test_a_call_that_does_not_fit_is_told_before_it_is_made():
    tool = validate({"tool": "gripper"}, Experiment).arm
    assert tool.takes()
    assert not tool.takes(1)
    with pytest.raises(PluginError) as caught:
        tool.build(1.0, spare="x")
    assert "expected a call with (Config, float, spare), found Arm(cfg)" in str(caught.value)


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


def test_singulars():
    assert [registry.singular(kind) for kind in ("tasks", "policies")] == ["task", "policy"]


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
