"""``robo-rl deploy`` and ``robo-rl sim-robot``: two processes over DDS, as on a robot."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from small_bundles import make_bundle
from small_domains import free_domain

from robo_rl.cli.main import main
from robo_rl.config.registry import load
from robo_rl.core.errors import ConfigError
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl_sim2real.cli.deploy import read_settings

pytest.importorskip("cyclonedds", reason="pip install 'robo-rl[dds]'")

ROBOT = load("robots", "panda")
DOMAIN = str(free_domain())
SETTINGS = """\
robot: panda
observe: {pos: {topic: /joint_states, field: position}}
lifecycle: {ramp_s: 0.2, final_hold_s: 0.2}
safety: {max_obs_age_s: 1.0, max_obs_age_periods: 20}
watchdog: {hang_timeout_s: 5.0, watchdog_timeout_s: 5.0}
"""


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "robo_rl", *map(str, words)]


def deploy(tmp_path: Path, *words: object) -> list[str]:
    if not (tmp_path / "bundle").exists():
        make_bundle(tmp_path / "bundle", ROBOT, -0.003)
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    settings = ["--settings", tmp_path / "settings.yaml", f"transport.domain={DOMAIN}"]
    return command("deploy", tmp_path / "bundle", *settings, *words)


@pytest.mark.slow
def test_a_node_and_a_robot_in_two_processes(tmp_path: Path):
    robot = subprocess.Popen(
        command("sim-robot", "--domain", DOMAIN, "--json", tmp_path / "robot.json"),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert robot.stderr is not None
    try:
        assert b"panda at lift_cube" in robot.stderr.readline()
        node = subprocess.run(
            deploy(
                tmp_path,
                *("--activate", "--seconds", 7, "--json", tmp_path / "health.json"),
                *("--record", tmp_path / "recordings"),
            ),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert node.returncode == 0, node.stderr
        health = json.loads((tmp_path / "health.json").read_text())
        assert 0.0 < health["latency_s"][0] < 1.0  # it was active: readings became commands
        assert (health["state"], health["ended"], health["dry_run"]) == (
            *("inactive", "in order"),
            False,
        )
        assert len(health["recorded"]) == 1
        done = main(["data", "convert", f"{tmp_path}/recordings", "--out", f"{tmp_path}/d.zarr"])
        assert done == 0
        assert len(ZarrStore.open(tmp_path / "d.zarr").episodes) > 0
    finally:
        robot.send_signal(signal.SIGINT)
        said, _ = robot.communicate(timeout=30)
    assert robot.returncode == 0
    found = json.loads((tmp_path / "robot.json").read_text())
    assert (found["episodes"], found["succeeded"], found["failed"]) == (1, 0, 1)  # it stays there
    assert said.startswith(b"1 episodes, 0 succeeded, 1 failed, 0 unfinished, ")


def test_a_robot_can_be_interrupted_from_its_first_line_on():
    code = "import signal, os, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    code += "os.execv(sys.argv[1], sys.argv[1:])"  # as under nohup
    words = command("sim-robot", "--domain", DOMAIN)
    robot = subprocess.Popen([sys.executable, "-c", code, *words], stderr=subprocess.PIPE)
    assert robot.stderr is not None
    assert b"panda at lift_cube" in robot.stderr.readline()
    robot.send_signal(signal.SIGINT)
    robot.communicate(timeout=30)
    assert robot.returncode == 0


def test_without_a_robot_it_waits_and_says_why(tmp_path: Path):
    node = subprocess.run(
        deploy(tmp_path, "--activate", "--seconds", 1), capture_output=True, text=True, timeout=120
    )
    assert node.returncode == 2, node.stderr
    assert "none on /joint_states" in node.stdout
    first = node.stderr.splitlines()[0]
    assert first.startswith("runs without services, which is no failure: ")
    assert first.endswith("the DDS transport has its services off")
    assert "the policy never began" in node.stderr


def test_a_bundle_without_settings_is_told_where_they_were_looked_for(tmp_path: Path):
    contract = make_bundle(tmp_path / "bundle", ROBOT).manifest.contract
    with pytest.raises(ConfigError, match="no config 'deploy/panda_made_up'"):
        read_settings("", contract, [])
    hint = "write configs/deploy/panda_made_up.yaml, or name a config by --settings"
    with pytest.raises(ConfigError, match=hint):
        read_settings("", contract, [])
    known = contract.model_copy(update={"task": "lift_cube"})
    assert read_settings("", known, ["safety.speed_scale=0.5"]).safety.speed_scale == 0.5


def test_a_robot_is_checked_before_anything_moves(tmp_path: Path):
    words = deploy(tmp_path, "--json", tmp_path / "found.json")
    words.insert(words.index("deploy") + 1, "check")
    alone = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert alone.returncode == 2, alone.stderr
    assert "no publisher" in alone.stdout
    robot = subprocess.Popen(command("sim-robot", "--domain", DOMAIN), stderr=subprocess.PIPE)
    assert robot.stderr is not None
    try:
        assert b"panda at lift_cube" in robot.stderr.readline()
        both = subprocess.run(words, capture_output=True, text=True, timeout=120)
    finally:
        robot.send_signal(signal.SIGINT)
        robot.communicate(timeout=30)
    assert both.returncode == 0, both.stdout + both.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["passed"]
    said = {finding["subject"]: finding["text"] for finding in found["findings"]}
    assert said["/joint_position_controller/commands"].startswith(
        "/sim_robot subscribes to commands"
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["transport.distro=jazy"], "did you mean 'jazzy'"),
        (["observe.pos.topic=5"], "observe.pos.topic"),
        (["command.joints=[a]"], "command.joints"),
        (["--transport", "telepathy"], "unknown transport 'telepathy'"),
        (["--record", "/dev/null/here"], "cannot be recorded to: Not a directory"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, words: list[str], problem: str):
    node = subprocess.run(deploy(tmp_path, *words), capture_output=True, text=True, timeout=120)
    assert node.returncode == 2
    assert problem in node.stderr
    assert "Traceback" not in node.stderr
