"""The whole way: a simulated robot that is late, recorded, and its latency found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from small_bundles import make_bundle

from robo_rl.cli.main import main
from robo_rl.config.component import component
from robo_rl.config.models import validate_strict
from robo_rl.core.errors import Notice
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.messages.kinds import MsgType, to_message
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.simulated.robot import SimRobot
from robo_rl_sim2real.simulated.world import SimWorld
from robo_rl_sim2real.transport.base import COMMAND, SENSOR
from robo_rl_sim2real.transport.loopback import Bus, Loopback
from robo_rl_sim2real.twin.identification import latency

pytest.importorskip("rosbags", reason="pip install 'robo-rl[dds]'")

from robo_rl_sim2real.messages.rosbags_types import message_factory, type_store
from robo_rl_sim2real.recording.bag_writer import BagWriter
from robo_rl_sim2real.recording.message_encoder import (
    ClockOrigin,
    EncodedMessage,
    MessageEncoder,
)
from robo_rl_sim2real.recording.topics import FORMAT, VERSION

STORE, DT_S = type_store("jazzy"), 0.01
BEGUN_NS = 1_700_000_000_000_000_000


class Scene:
    """A simulated robot on a clock of its own, and a bag of all that is said."""

    def __init__(self, folder: Path, **lag: object) -> None:
        self.now_s, self.bus = 10.0, Bus(lambda: self.now_s)
        backend = component("backends").make({"name": "mujoco_cpu", "threads": 1}).build()
        world = SimWorld(component("tasks").make("lift_cube").build(), backend, DT_S)
        clock = Clock(lambda: self.now_s, lambda s: None)
        self.robot = SimRobot(
            validate_strict(lag, SimRobot.Config), world, Loopback(self.bus), clock
        )
        self.home = np.array([joint.home for joint in world.robot.actuated_joints])
        self.model, self.bag, us = world.robot, BagWriter(folder / "bag", STORE), Loopback(self.bus)
        self.command = us.create_publisher(self.model.topics.command, MsgType.ARRAY, COMMAND)
        us.subscribe(self.model.topics.joint_states, MsgType.JOINT_STATES, self._joints, SENSOR)

    def wave(self, seconds: float, width: float = 0.2) -> None:
        """Joints to and fro, commanded at 20 Hz."""
        joints, widths = np.arange(len(self.home)), width * np.linspace(0.5, 1.0, len(self.home))
        self.move(seconds, lambda at_s: widths * np.sin(2.0 * (at_s + joints)))

    def move(self, seconds: float, motion: Callable[[float], np.ndarray | float]) -> None:
        """A motion about the home pose, commanded at 20 Hz."""
        for i in range(round(seconds / DT_S)):
            if i % 5 == 0:
                pos = self.home + motion(self.now_s)
                reading = Reading({"data": pos}, (), self.now_s)
                self.command.send(reading)
                self._write(self.model.topics.command, MsgType.ARRAY, reading)
            self.robot.tick(self.now_s)
            self.now_s += DT_S
        self.bag.close()
        self.robot.close()

    def _joints(self, reading: Reading) -> None:
        self._write(self.model.topics.joint_states, MsgType.JOINT_STATES, reading)

    def _write(self, topic: str, kind: MsgType, reading: Reading) -> None:
        message = to_message(kind, reading, message_factory(STORE))
        at_ns = BEGUN_NS + round(1e9 * self.now_s)
        self.bag.write(
            EncodedMessage(
                topic, kind.value, at_ns, bytes(STORE.serialize_cdr(message, kind.value))
            )
        )


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """What the user has to say of a recording that says nothing of itself."""
    make_bundle(tmp_path / "bundle", component("robots").make("panda").build())
    settings = {"robot": "panda", "observe": {"pos": {"topic": "/joint_states"}}}
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
    return [
        f"settings={tmp_path / 'settings.yaml'}",
        f"contract_from={tmp_path / 'bundle'}",
        "task=lift_cube",
    ]


def test_a_latency_is_found_again(tmp_path: Path, words: list[str]):
    Scene(tmp_path, sensor_delay={"latency_s": 0.02}, command_delay={"latency_s": 0.04}).wave(8.0)
    found = tmp_path / "found.json"
    assert main(["deploy", "latency", str(tmp_path / "bag"), *words, "--json", str(found)]) == 0
    low, high = json.loads(found.read_text())["env"]["obs_delay"]["latency_s"]
    # the simulated robot obeys and measures at 100 Hz: what it is told waits for the next step
    assert 0.055 < low <= high < 0.075


def test_one_that_is_not_late_is_found_so(tmp_path: Path, words: list[str]):
    Scene(tmp_path).wave(8.0)
    found = tmp_path / "found.json"
    assert main(["deploy", "latency", str(tmp_path / "bag"), *words, "--json", str(found)]) == 0
    assert max(json.loads(found.read_text())["env"]["obs_delay"]["latency_s"]) < 0.015


@pytest.mark.parametrize(
    ("width", "seconds", "said"),
    [(0.0, 5.0, "hardly moved under commands"), (0.2, 0.3, "hardly moved under commands")],
)
def test_what_tells_nothing_is_refused(tmp_path, words, capsys, width, seconds, said):
    Scene(tmp_path).wave(seconds, width)
    assert main(["deploy", "latency", str(tmp_path / "bag"), *words]) == 2
    assert said in capsys.readouterr().err


def ramp(at_s: float) -> float:
    """From 10 s on at 0.1 rad/s, there and back in 24 s."""
    return 0.1 * (at_s - 10.0) if at_s < 22.0 else 0.1 * (34.0 - at_s)


NOISY = {"position_noise": 0.0005, "sensor_delay": {"latency_s": 0.06}}


def test_ramps_alone_are_refused(tmp_path, words, capsys):
    Scene(tmp_path, **NOISY).move(9.0, ramp)
    assert main(["deploy", "latency", str(tmp_path / "bag"), *words]) == 2
    said = capsys.readouterr().err
    assert "the motion tells no delay" in said
    assert "move with changing speed" in said


def test_of_ramps_and_turns_the_turns_are_taken(tmp_path, words, capsys):
    Scene(tmp_path, **NOISY).move(20.0, ramp)
    found = tmp_path / "found.json"
    assert main(["deploy", "latency", str(tmp_path / "bag"), *words, "--json", str(found)]) == 0
    told = json.loads(found.read_text())
    assert 0 < len(told["windows"]) < told["num_uninformative"]
    assert f"{told['num_uninformative']} tell no delay" in capsys.readouterr().out
    np.testing.assert_allclose(told["env"]["obs_delay"]["latency_s"], 0.06, atol=0.005)


def test_the_setting_loses_control_periods_and_the_table_readings(tmp_path, words, capsys):
    Scene(tmp_path, sensor_delay={"loss": 0.3}).wave(8.0)
    found = tmp_path / "found.json"
    assert main(["deploy", "latency", str(tmp_path / "bag"), *words, "--json", str(found)]) == 0
    told = json.loads(found.read_text())
    lost = told["arrivals"]["loss"]
    assert lost == pytest.approx(0.3, abs=0.06)  # of 800: a standard error of 0.016
    # readings at 100 Hz, control at 20 Hz
    assert told["env"]["obs_delay"]["loss"] == pytest.approx(lost**5, abs=1e-4)
    out = capsys.readouterr().out
    assert f"single readings lost               {lost:.1%}" in out
    assert f"control periods without a reading  {lost**5:.1%}" in out
    assert "at 20 Hz" in out


def test_recordings_of_different_control_rates_are_refused(tmp_path, words, capsys, monkeypatch):
    Scene(tmp_path).wave(1.0)
    shutil.copytree(tmp_path / "bag", tmp_path / "slow")

    read = latency._read

    def with_rate(bag: Path, cfg: latency.LatencyFitConfig):
        found = read(bag, cfg)
        assert found is not None
        want, made = found
        rate_hz = 10.0 if bag.name == "slow" else 20.0
        act = want.contract.act.model_copy(update={"rate_hz": rate_hz})
        return want._replace(contract=want.contract.model_copy(update={"act": act})), made

    monkeypatch.setattr(latency, "_read", with_rate)
    assert main(["deploy", "latency", str(tmp_path), *words]) == 2
    assert "different control rates; expected one rate" in capsys.readouterr().err


def test_every_recording_counts_once(tmp_path, words, capsys):
    scene = Scene(tmp_path)
    assert main(["deploy", "latency", str(tmp_path), *words]) == 2
    assert "bag: is being recorded" in capsys.readouterr().err
    scene.wave(0.3)
    shutil.copytree(tmp_path / "bag", tmp_path / "bag-mended")
    with pytest.warns(Notice, match="bag-mended: left out, because bag is whole"):
        main(["deploy", "latency", str(tmp_path), *words])


def test_a_torn_recording_whose_copy_is_elsewhere_in_the_folder_is_told(tmp_path, words, capsys):
    scene = Scene(tmp_path)
    scene.wave(0.3)
    torn = BagWriter(tmp_path / "torn", STORE)
    encoder = MessageEncoder({"task": "lift"}, ("a",), ClockOrigin(0.0, BEGUN_NS))
    torn.write(encoder.about())
    torn.flush()
    torn.discard()
    assert main(["data", "recover", str(tmp_path / "torn")]) == 0
    assert main(["deploy", "latency", str(tmp_path / "torn"), *words]) == 2
    said = capsys.readouterr().err
    assert "no recording to estimate from; found torn: left out, because it was cut off" in said
    assert "torn-mended" in said


def test_a_recording_of_which_no_command_was_sent_is_left_out(tmp_path, words, capsys):
    """By a node that was never active, or in a dry run."""
    about = {"format": FORMAT, "version": VERSION}
    begun = BagWriter(tmp_path / "begun", STORE)
    begun.write(MessageEncoder(about, ("a",), ClockOrigin(0.0, BEGUN_NS)).about())
    begun.close()
    assert main(["deploy", "latency", str(tmp_path), *words]) == 2
    why = "begun: left out, because no command was sent"
    assert f"no recording to estimate from; found {why}" in capsys.readouterr().err
    Scene(tmp_path).wave(0.3)
    with pytest.warns(Notice, match=why):
        assert main(["deploy", "latency", str(tmp_path), *words]) == 2
    assert "hardly moved under commands" in capsys.readouterr().err


def test_one_that_is_later_than_was_looked_for_is_refused(tmp_path, words, capsys):
    Scene(tmp_path, sensor_delay={"latency_s": 0.3}).wave(6.0)
    assert main(["deploy", "latency", str(tmp_path / "bag"), *words, "max_delay_s=0.1"]) == 2
    assert "a longer max_delay_s" in capsys.readouterr().err
