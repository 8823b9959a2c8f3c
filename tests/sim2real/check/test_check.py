"""A robot as it should be passes, and every one of these faults is found before anything moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_bundles import make_bundle, with_items

from robo_rl.bundle.bundle import Bundle
from robo_rl.config.models import strict
from robo_rl.config.registry import load
from robo_rl.core.spec import TensorSpec
from robo_rl_sim2real.check.finding import Finding, Mark
from robo_rl_sim2real.check.survey import Facts, survey
from robo_rl_sim2real.cli.check import RULES, check, text
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.messages.kinds import Kind
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.settings import Settings
from robo_rl_sim2real.transport.base import COMMAND, LATCHED, SENSOR, Publisher, Qos
from robo_rl_sim2real.transport.loopback import Bus, Loopback

ROBOT = load("robots", "panda")
NAMES = tuple(joint.name for joint in ROBOT.actuated)
JOINTS, COMMANDS, CAMERA = "/joint_states", ROBOT.topics.command, "/front"
STEP_S = 0.01
RGB = TensorSpec(shape=(16, 16, 3), dtype="uint8")


class Scene:
    """A robot on a bus and a clock of its own; its fields are what may be wrong with it."""

    def __init__(self, path: Path) -> None:
        self.path, self.now_s = path, 50.0
        self.bus = Bus(lambda: self.now_s)
        self.member, self.rng = Loopback(self.bus), np.random.default_rng(0)
        self.pos, self.names, self.every = ROBOT.home_ctrl.copy(), NAMES, 1
        self.estop: bool | None = None
        self.estop_qos, self.joints_kind = COMMAND, Kind.JOINT_STATES
        self.obeys: Kind | None = Kind.ARRAY
        self.shape: tuple[int, int] | None = None
        self.fields: dict[str, Any] = {}
        self.late_s, self.sent = 0.0, list[Reading]()

    def find(self) -> dict[str, Finding]:
        """Subject → what was found; the worst where there are several."""
        facts = self.facts()
        found = [finding for rule in RULES for finding in rule(facts)]
        return {f.subject: f for f in sorted(found, key=lambda f: list(Mark).index(f.mark))}

    def facts(self) -> Facts:
        self.start()
        return survey(self.settings(), self.bundle(), self.connect, 2.0, self.clock())

    def start(self) -> None:
        self.mouths = list[tuple[Publisher, Callable[[], Reading]]]()
        if self.every:
            out = self.member.advertise(JOINTS, self.joints_kind, SENSOR)
            self.mouths.append((out, lambda: Reading({"position": self.pos}, self.names, 0.0)))
        if self.shape is not None:
            out = self.member.advertise(CAMERA, Kind.IMAGE, SENSOR)
            self.mouths.append((out, self.picture))
        if self.estop is not None:
            out = self.member.advertise("/estop", Kind.FLAG, self.estop_qos)
            self.mouths.append((out, lambda: Reading({"data": np.asarray(self.estop)}, (), 0.0)))
        if self.obeys is not None:
            self.member.subscribe(COMMANDS, self.obeys, self.sent.append, COMMAND)

    def picture(self) -> Reading:
        assert self.shape is not None
        return Reading({"image": self.rng.integers(0, 256, (*self.shape, 3), np.uint8)}, (), 0.0)

    def connect(self) -> Loopback:
        return Loopback(self.bus)

    def clock(self) -> Clock:
        return Clock(lambda: self.now_s, self.sleep)

    def sleep(self, seconds: float) -> None:
        for step in range(round(seconds / STEP_S)):
            self.now_s += STEP_S
            for out, reading in self.mouths if self.every and step % self.every == 0 else ():
                out.send(reading())
        self.now_s += self.late_s

    def settings(self) -> Settings:
        observe = {"pos": {"topic": JOINTS, "field": "position"}}
        if self.shape is not None:
            observe["rgb"] = {"topic": CAMERA, "kind": Kind.IMAGE.value}
        return strict({"robot": {"name": "panda"}, "observe": observe, **self.fields}, Settings)

    def bundle(self) -> Bundle:
        plain = make_bundle(self.path / "bundle", ROBOT)
        return with_items(self.path / "other", plain, rgb=RGB) if self.shape else plain


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_robot_as_it_should_be_passes_and_hears_no_command(scene: Scene):
    found = scene.find()
    assert {finding.mark for finding in found.values()} == {Mark.OK}
    wanted = {"contract", "joints", "start", "observation", "first action", "policy", "clock"}
    assert found.keys() == wanted | {JOINTS, COMMANDS, "/estop", "busy machine"}
    assert "100.0 Hz, longest gap 10 ms" in found[JOINTS].text
    assert scene.sent == []


def degrees(scene: Scene) -> None:
    scene.pos = np.degrees(scene.pos)
    scene.pos[7] = 0.04


def rival(scene: Scene) -> None:
    scene.member.advertise(COMMANDS, Kind.ARRAY)


def second(scene: Scene) -> None:
    scene.member.subscribe(COMMANDS, Kind.ARRAY, print, COMMAND)


def latched(scene: Scene) -> None:
    scene.obeys = None
    scene.member.subscribe(COMMANDS, Kind.ARRAY, print, LATCHED)


def twice(scene: Scene) -> None:
    scene.member.advertise(JOINTS, Kind.JOINT_STATES, SENSOR)


def simulated_time(scene: Scene) -> None:
    scene.member.advertise("/clock", Kind.TEXT, SENSOR)


def change(**fields: Any) -> Callable[[Scene], None]:
    def fault(scene: Scene) -> None:
        vars(scene).update(fields)

    return fault


FAULTS = [
    (change(every=0), JOINTS, Mark.FAILED, "nobody publishes it"),
    (change(every=20), JOINTS, Mark.FAILED, "5.0 Hz"),
    (change(every=8), JOINTS, Mark.WARNING, "below the policy's 20 Hz"),
    (change(joints_kind=Kind.ARRAY), JOINTS, Mark.FAILED, "publishes std_msgs/msg/Float64Multi"),
    (twice, JOINTS, Mark.FAILED, "2 nodes publish it"),
    (degrees, "joints", Mark.FAILED, "panda_joint4 -114.592"),
    (change(names=("another", *NAMES[1:])), "joints", Mark.FAILED, "no 'panda_joint1'"),
    (change(names=()), "joints", Mark.FAILED, "without names"),
    (change(pos=ROBOT.home_ctrl + 9.0), "joints", Mark.FAILED, "beyond their limits"),
    (change(pos=ROBOT.home_ctrl * np.nan), "joints", Mark.FAILED, "not finite"),
    (change(pos=ROBOT.home_ctrl + np.eye(8)[0]), "start", Mark.WARNING, "joint1 is 1.000 from"),
    (rival, COMMANDS, Mark.FAILED, "publishes commands too"),
    (change(obeys=None), COMMANDS, Mark.FAILED, "nobody hears commands"),
    (change(obeys=Kind.TRAJECTORY), COMMANDS, Mark.FAILED, "but commands are std_msgs"),
    (second, COMMANDS, Mark.WARNING, "2 hear commands"),
    (latched, COMMANDS, Mark.FAILED, "hears nothing from a volatile writer"),
    (change(estop=True), "/estop", Mark.FAILED, "is pressed"),
    (change(estop=False, estop_qos=Qos(reliable=False)), "/estop", Mark.FAILED, "best-effort"),
    (change(fields={"estop_age_s": 0.5}), "/estop", Mark.FAILED, "nothing came"),
    (change(late_s=0.04), "clock", Mark.WARNING, "wakes at most 40.0 ms late"),
    (simulated_time, "/clock", Mark.WARNING, "simulated time"),
    (change(shape=(48, 64)), f"{CAMERA} picture", Mark.FAILED, r"crop: [0, 8, 48, 48]"),
]


@pytest.mark.parametrize(("fault", "subject", "mark", "problem"), FAULTS)
def test_every_fault_is_found(scene: Scene, fault, subject, mark, problem):
    fault(scene)
    found = scene.find()[subject]
    assert found.mark is mark
    assert problem in found.text
    assert found.remedy


def test_joints_in_degrees_are_told_to_be_in_degrees(scene: Scene):
    degrees(scene)
    assert "these look like degrees" in scene.find()["joints"].remedy


def test_pictures_that_fit_pass(scene: Scene):
    scene.shape = (32, 32)
    found = scene.find()
    assert {finding.mark for finding in found.values()} == {Mark.OK}
    assert found[f"{CAMERA} picture"].text == "made ready: rgb (16, 16, 3)"


def test_a_released_stop_that_is_heard_passes(scene: Scene):
    scene.estop, scene.fields = False, {"estop_age_s": 0.5}
    assert scene.find()["/estop"].mark is Mark.OK


def test_a_policy_that_is_too_slow_is_found(scene: Scene):
    facts = scene.facts()
    slow = facts._replace(query_s=np.full(10, 0.08))
    marks = {f.subject: f.mark for rule in RULES for f in rule(slow)}
    assert marks["policy"] is Mark.FAILED
    thread = facts.settings.model_copy(update={"planner": "thread"})
    marks = {f.subject: f.mark for rule in RULES for f in rule(slow._replace(settings=thread))}
    assert marks["policy"] is Mark.OK


def test_a_bundle_for_another_robot_is_told_at_once(scene: Scene, tmp_path: Path):
    bundle = make_bundle(tmp_path / "fast", ROBOT, rate_hz=50.0)
    (found,) = check(scene.settings(), bundle, scene.connect, 1.0)
    assert (found.mark, found.subject) == (Mark.FAILED, "contract")
    assert "act rate_hz: expected 50, found 20" in found.text
    assert "mend this first" in text([found])
