"""The ament package says what is so: versions, files, dependencies, topics that it may use."""

# pyright: reportMissingImports=false
from __future__ import annotations

import ast
import importlib.util
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import tomllib
from small_bundles import make_bundle
from small_domains import free_domain

from robo_rl.config.models import compose, validate
from robo_rl.config.registry import load
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.node.services import ASKED
from robo_rl_sim2real.node.settings import DeploySettings

OF_ROS = (
    *("change_state", "get_state", "get_available_states", "get_available_transitions"),
    *("get_transition_graph", "get_type_description", "describe_parameters"),
    *("get_parameter_types", "get_parameters", "list_parameters", "set_parameters"),
    "set_parameters_atomically",
)
"""Services that ROS 2 gives a lifecycle node."""

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "sim2real" / "ros2"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MANIFEST = ElementTree.parse(PACKAGE / "package.xml").getroot()
NOT_ROS = {"robo_rl", "robo_rl_ros2", "robo_rl_sim2real", "setuptools", "__future__"}
needs_rclpy = pytest.mark.skipif(
    importlib.util.find_spec("rclpy") is None, reason="rclpy comes with ROS 2"
)


def policy_module() -> Any:
    spec = importlib.util.spec_from_file_location("policy", PACKAGE / "robo_rl_ros2" / "policy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What setup.py hands to setuptools."""
    found: dict[str, Any] = {}
    monkeypatch.setitem(sys.modules, "setuptools", SimpleNamespace(setup=found.update))
    runpy.run_path(str(PACKAGE / "setup.py"))
    return found


def imported(path: Path) -> set[str]:
    """Packages that a file imports anywhere, without the standard library's."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found |= {name.partition(".")[0] for name in names}
    return found - set(sys.stdlib_module_names) - NOT_ROS


def allowed(what: str, how: str, node: str = "policy") -> set[str]:
    root = ElementTree.parse(PACKAGE / "config" / "policy_enclave.xml").getroot()
    found = root.findall(f".//profile[@node='{node}']/{what}s[@{how}='ALLOW']/{what}")
    return {str(name.text) for name in found}


def test_versions_licences_and_names_are_the_projects(told: dict[str, Any]):
    project = PROJECT["project"]
    assert MANIFEST.get("format") == "3"
    assert MANIFEST.findtext("version") == told["version"] == project["version"]
    assert MANIFEST.findtext("license") == told["license"] == project["license"]
    assert MANIFEST.findtext("name") == told["name"] == "robo_rl_ros2"
    assert MANIFEST.findtext("export/build_type") == "ament_python"
    assert (PACKAGE / "resource" / told["name"]).exists()


def test_every_file_that_is_installed_is_there_and_every_config_is_installed(told: dict[str, Any]):
    files = {file for _, some in told["data_files"] for file in some}
    assert all((PACKAGE / file).is_file() for file in files)
    assert {f"config/{path.name}" for path in (PACKAGE / "config").iterdir()} <= files


def test_it_depends_on_every_ros_package_that_it_imports():
    transport = ROOT / "sim2real" / "robo_rl_sim2real" / "transport"
    files = [*(PACKAGE / "launch").glob("*.py"), *(PACKAGE / "robo_rl_ros2").glob("*.py")]
    files += [transport / "ros2" / "lifecycle_node.py"]
    wanted = set[str]().union(*map(imported, files)) | {"rclpy", "lifecycle_msgs", "std_srvs"}
    wanted |= {kind.value.partition("/")[0] for kind in MsgType}
    listed = {str(depend.text) for depend in MANIFEST.findall("exec_depend")}
    assert wanted - listed == set()


def test_the_launch_file_compiles_and_names_the_executable(told: dict[str, Any]):
    source = (PACKAGE / "launch" / "policy.launch.py").read_text()
    compile(source, "policy.launch.py", "exec")
    name, _, target = told["entry_points"]["console_scripts"][0].partition(" = ")
    assert f'executable="{name}"' in source
    assert target == "robo_rl_ros2.policy:main"


@pytest.mark.skipif(importlib.util.find_spec("launch_ros") is None, reason="launch is ROS 2's own")
def test_the_launch_file_describes_a_node():
    made = runpy.run_path(str(PACKAGE / "launch" / "policy.launch.py"))
    described = made["generate_launch_description"]()
    (node,) = [entity for entity in described.entities if hasattr(entity, "node_executable")]
    assert node.node_package == "robo_rl_ros2"


def test_no_wheel_of_the_project_has_it():
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert not [name for name in packages if (PACKAGE).is_relative_to(ROOT / name)]


def test_the_enclave_may_do_what_the_deployment_does_and_nothing_else():
    settings = validate(compose("deploy/panda_lift_cube", []), DeploySettings)
    topics = load("robots", "panda").topics
    heard = {source.topic for source in settings.observe.values() if source.topic}
    heard |= {settings.joint_states or topics.joint_states, settings.estop, settings.control}
    assert allowed("topic", "subscribe") == heard
    said = {settings.command.topic or topics.command, settings.state}
    said |= {settings.diagnostics, settings.heartbeat}
    ros = {"/parameter_events", "/rosout", "~/transition_event"}
    assert allowed("topic", "publish") == said | ros
    assert allowed("service", "reply") == {f"~/{name}" for name in ("stop", *ASKED, *OF_ROS)}


def test_the_watchdog_may_command_and_say_the_state_and_hear_nothing():
    settings = validate(compose("deploy/panda_lift_cube", []), DeploySettings)
    commands = settings.command.topic or load("robots", "panda").topics.command
    said = {commands, settings.state, f"{settings.state}/watchdog_warms_up"}
    own = {"/parameter_events", "/rosout", "~/transition_event"}
    assert allowed("topic", "publish", "policy_watchdog") == said | own
    assert not allowed("topic", "subscribe", "policy_watchdog")
    services = allowed("service", "reply", "policy_watchdog")
    assert services == allowed("service", "reply") - {
        "~/activate",
        "~/home",
        "~/deactivate",
        "~/reset",
        "~/stop",
    }


def test_parameters_become_the_words_of_robo_rl(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", "7")
    module = policy_module()
    chosen = {**module.DEFAULTS, "bundle": "-b", "overrides": ["safety.speed=0.5"], "dry_run": True}
    words = module.words(chosen, ["--ros-args", "-r", "__node:=a'b"])
    at = words.index("--")
    assert words[:at] == ["deploy", "--dry-run", "--transport", "ros2"]
    assert words[at + 1] == "-b"
    assert words[at + 2 :] == [
        "transport.network=true",
        "transport.domain=7",
        "transport.args=['--ros-args','-r','__node:=a''b']",
        "safety.speed=0.5",
    ]


@needs_rclpy
def test_parameters_are_read_from_ros_arguments(tmp_path: Path):
    file = tmp_path / "params.yaml"
    file.write_text("/**:\n  ros__parameters:\n    settings: mine\n    activate: true\n")
    args = ["policy", "--ros-args", "-r", "__node:=arm", "--params-file", str(file)]
    found = policy_module().parameters([*args, "-p", "bundle:=/some/where"])
    assert found == {
        "bundle": "/some/where",
        "settings": "mine",
        "overrides": [""],
        "home": False,
        "activate": True,
        "dry_run": False,
    }


@needs_rclpy
def test_the_node_runs_under_the_name_it_is_given_until_it_is_shut_down(tmp_path: Path):
    from lifecycle_msgs.srv import ChangeState

    from robo_rl_sim2real.transport.ros2.transport import Ros2

    make_bundle(tmp_path / "bundle", load("robots", "panda"), 0.0)
    settings = tmp_path / "settings.yaml"
    settings.write_text("robot: panda\nobserve: {pos: {topic: /joint_states, field: position}}\n")
    domain = free_domain()
    words = ["-p", f"bundle:={tmp_path / 'bundle'}", "-p", f"settings:={settings}"]
    words += ["-p", "overrides:=[transport.network=false]", "-r", "__node:=arm"]
    node = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from robo_rl_ros2.policy import main; main()",
            "--ros-args",
            *words,
        ],
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "ROS_DOMAIN_ID": str(domain)},
        stderr=subprocess.PIPE,
        text=True,
    )
    manager = Ros2(Ros2.Config(domain=domain), "manager")
    try:
        assert manager.call_service("/arm/stop", 60.0).success
        client = manager.node.create_client(ChangeState, "/arm/change_state")
        assert client.wait_for_service(timeout_sec=20.0)
        request = ChangeState.Request()
        request.transition.label = "shutdown"
        client.call_async(request)
        _, said = node.communicate(timeout=60)
    finally:
        manager.close()
        node.kill()
    assert node.returncode == 0, said
    assert "services: ~/stop" in said
