"""A robot as it should be passes, and every one of these faults is found before anything moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_bundles import make_bundle, with_instruction, with_items, with_split

from robo_rl.bundle.bundle import Bundle
from robo_rl.config.models import validate_strict
from robo_rl.config.registry import load
from robo_rl.core.spec import TensorSpec
from robo_rl_sim2real.check.check_result import CheckResult, Severity
from robo_rl_sim2real.check.survey import SurveyResult, survey
from robo_rl_sim2real.cli.check import RULES, format_results, run_checks
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.transport.base import COMMAND, LATCHED, SENSOR, Publisher, Qos
from robo_rl_sim2real.transport.loopback import Bus, Loopback

ROBOT = load("robots", "panda")
NAMES = tuple(joint.name for joint in ROBOT.actuated_joints)
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
        self.estop_qos, self.joints_kind = COMMAND, MsgType.JOINT_STATES
        self.obeys: MsgType | None = MsgType.ARRAY
        self.shape: tuple[int, int] | None = None
        self.fields: dict[str, Any] = {}
        self.instructed = ""
        self.late_s, self.sent = 0.0, list[Reading]()
        self.quiet_share = 0.0  # of the time that is listened to, at its end

    def find(self) -> dict[str, CheckResult]:
        """Subject → what was found; the worst where there are several."""
        facts = self.facts()
        found = [finding for rule in RULES for finding in rule(facts)]
        return {f.subject: f for f in sorted(found, key=lambda f: list(Severity).index(f.severity))}

    def facts(self) -> SurveyResult:
        self.start()
        return survey(self.settings(), self.bundle(), self.connect, 2.0, self.clock())

    def start(self) -> None:
        self.mouths = list[tuple[Publisher, Callable[[], Reading]]]()
        if self.every:
            out = self.member.create_publisher(JOINTS, self.joints_kind, SENSOR)
            self.mouths.append((out, lambda: Reading({"position": self.pos}, self.names, 0.0)))
        if self.shape is not None:
            out = self.member.create_publisher(CAMERA, MsgType.IMAGE, SENSOR)
            self.mouths.append((out, self.picture))
        if self.estop is not None:
            out = self.member.create_publisher("/estop", MsgType.FLAG, self.estop_qos)
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
        steps = round(seconds / STEP_S)
        for step in range(steps):
            self.now_s += STEP_S
            says = self.every and step % self.every == 0 and step < (1 - self.quiet_share) * steps
            for out, reading in self.mouths if says else ():
                out.send(reading())
        self.now_s += self.late_s

    def settings(self) -> DeploySettings:
        observe = {"pos": {"topic": JOINTS, "field": "position"}}
        if self.shape is not None:
            observe["rgb"] = {"topic": CAMERA, "msg_type": MsgType.IMAGE.value}
        if self.instructed:
            observe["instruction"] = {"topic": self.instructed, "msg_type": MsgType.TEXT.value}
        return validate_strict(
            {"robot": {"name": "panda"}, "observe": observe, **self.fields}, DeploySettings
        )

    def bundle(self) -> Bundle:
        plain = make_bundle(self.path / "bundle", ROBOT)
        if self.instructed:
            return with_instruction(self.path / "reads", plain)
        return with_items(self.path / "other", plain, rgb=RGB) if self.shape else plain


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_robot_as_it_should_be_passes_and_hears_no_command(scene: Scene):
    found = scene.find()
    assert {finding.severity for finding in found.values()} == {Severity.OK}
    wanted = {"contract", "joints", "start", "observation", "first action", "policy", "clock"}
    assert found.keys() == wanted | {JOINTS, COMMANDS, "/estop", "busy machine"}
    assert "100.0 Hz, longest gap 10 ms" in found[JOINTS].text
    assert scene.sent == []


@pytest.mark.parametrize("said", [True, False])
def test_an_instruction_that_was_published_once_before_is_heard(scene: Scene, said: bool):
    out = scene.member.create_publisher("/instruction", MsgType.TEXT, LATCHED)
    if said:
        out.send(Reading({"data": np.asarray("lift it")}, (), 0.0))
    scene.instructed = "/instruction"
    found = scene.find()["/instruction"]
    assert found.severity is (Severity.OK if said else Severity.FAILED)
    assert ("an instruction" if said else "nothing came") in found.text


def unsaid(scene: Scene) -> None:
    scene.member.create_publisher("/estop", MsgType.FLAG, COMMAND)


def two_buttons(scene: Scene) -> None:
    scene.estop = False
    scene.member.create_publisher("/estop", MsgType.FLAG, COMMAND)
    scene.member.create_publisher("/estop", MsgType.FLAG, COMMAND)


def pressed_before(scene: Scene) -> None:
    button = scene.member.create_publisher("/estop", MsgType.FLAG, LATCHED)
    button.send(Reading({"data": np.asarray(True)}, (), 0.0))


def degrees(scene: Scene) -> None:
    scene.pos = np.degrees(scene.pos)
    scene.pos[7] = 0.04


def rival(scene: Scene) -> None:
    scene.member.create_publisher(COMMANDS, MsgType.ARRAY)


def second(scene: Scene) -> None:
    scene.member.subscribe(COMMANDS, MsgType.ARRAY, print, COMMAND)


def latched(scene: Scene) -> None:
    scene.obeys = None
    scene.member.subscribe(COMMANDS, MsgType.ARRAY, print, LATCHED)


def twice(scene: Scene) -> None:
    scene.member.create_publisher(JOINTS, MsgType.JOINT_STATES, SENSOR)


def simulated_time(scene: Scene) -> None:
    scene.member.create_publisher("/clock", MsgType.TEXT, SENSOR)


def change(**fields: Any) -> Callable[[Scene], None]:
    def fault(scene: Scene) -> None:
        vars(scene).update(fields)

    return fault


FAULTS = [
    (change(every=0), JOINTS, Severity.FAILED, "no publisher"),
    (change(every=20), JOINTS, Severity.FAILED, "5.0 Hz"),
    (change(every=8), JOINTS, Severity.WARNING, "below the policy's 20 Hz"),
    (
        change(joints_kind=MsgType.ARRAY),
        JOINTS,
        Severity.FAILED,
        "publishes std_msgs/msg/Float64Multi",
    ),
    (twice, JOINTS, Severity.FAILED, "2 nodes publish it"),
    (degrees, "joints", Severity.FAILED, "panda_joint4 -114.592"),
    (change(names=("another", *NAMES[1:])), "joints", Severity.FAILED, "no 'panda_joint1'"),
    (change(names=()), "joints", Severity.FAILED, "without names"),
    (change(pos=ROBOT.home_ctrl + 9.0), "joints", Severity.FAILED, "beyond their limits"),
    (change(pos=ROBOT.home_ctrl * np.nan), "joints", Severity.FAILED, "not finite"),
    (change(pos=ROBOT.home_ctrl + np.eye(8)[0]), "start", Severity.WARNING, "joint1 is 1.000 from"),
    (rival, COMMANDS, Severity.FAILED, "publishes commands too"),
    (change(obeys=None), COMMANDS, Severity.FAILED, "no subscriber for commands"),
    (change(obeys=MsgType.TRAJECTORY), COMMANDS, Severity.FAILED, "but commands are std_msgs"),
    (second, COMMANDS, Severity.WARNING, "2 subscribers"),
    (latched, COMMANDS, Severity.FAILED, "hears nothing from a volatile writer"),
    (change(estop=True), "/estop", Severity.FAILED, "is pressed"),
    (change(estop=False, estop_qos=Qos(reliable=False)), "/estop", Severity.FAILED, "best-effort"),
    (unsaid, "/estop", Severity.WARNING, "has not said whether it is pressed"),
    (two_buttons, "/estop", Severity.FAILED, "nodes publish it"),
    (pressed_before, "/estop", Severity.FAILED, "is pressed"),
    (change(fields={"estop_timeout_s": 0.5}), "/estop", Severity.FAILED, "no message came"),
    (change(late_s=0.04), "clock", Severity.WARNING, "wakes at most 40.0 ms late"),
    (
        change(estop=False, quiet_share=0.5, fields={"estop_timeout_s": 0.5}),
        "/estop",
        Severity.FAILED,
        "silent for 1.0",
    ),
    (change(quiet_share=0.5), JOINTS, Severity.WARNING, "longest gap 1000 ms, above 100 ms"),
    (simulated_time, "/clock", Severity.WARNING, "simulated time"),
    (change(shape=(48, 64)), f"{CAMERA} picture", Severity.FAILED, r"crop: [0, 8, 48, 48]"),
]


@pytest.mark.parametrize(("fault", "subject", "mark", "problem"), FAULTS)
def test_every_fault_is_found(scene: Scene, fault, subject, mark, problem):
    fault(scene)
    found = scene.find()[subject]
    assert found.severity is mark
    assert problem in found.text
    assert found.remedy


def test_joints_in_degrees_are_told_to_be_in_degrees(scene: Scene):
    degrees(scene)
    assert "these look like degrees" in scene.find()["joints"].remedy


def test_pictures_that_fit_pass(scene: Scene):
    scene.shape = (32, 32)
    found = scene.find()
    assert {finding.severity for finding in found.values()} == {Severity.OK}
    assert found[f"{CAMERA} picture"].text == "made ready: rgb (16, 16, 3)"


def test_a_released_stop_that_is_heard_passes(scene: Scene):
    scene.estop, scene.fields = False, {"estop_timeout_s": 0.5}
    assert scene.find()["/estop"].severity is Severity.OK


def test_a_policy_that_is_too_slow_is_found(scene: Scene):
    facts = scene.facts()
    slow = facts._replace(query_s=np.full(200, 0.08))
    marks = {f.subject: f.severity for rule in RULES for f in rule(slow)}
    assert marks["policy"] is Severity.FAILED
    thread = facts.settings.model_copy(update={"inference": "thread"})
    marks = {f.subject: f.severity for rule in RULES for f in rule(slow._replace(settings=thread))}
    assert marks["policy"] is Severity.OK


def test_a_tail_that_few_queries_cannot_show_is_not_said_to_be_known(scene: Scene):
    """Five queries miss a stall of one in a hundred with a probability of 95 %."""
    facts = scene.facts()
    few, enough = (facts._replace(query_s=np.full(n, 1e-3)) for n in (5, 200))
    found, known = (
        next(f for rule in RULES for f in rule(each) if f.subject == "policy")
        for each in (few, enough)
    )
    assert found.severity is Severity.WARNING
    assert "the slowest of 5 in 1 ms" in found.text
    assert "99 %" not in found.text
    assert (known.severity, "99 % in 1 ms" in known.text) == (Severity.OK, True)


def test_both_graphs_of_a_policy_are_timed_and_old_images_are_found(scene: Scene):
    """Images are a refresh old when they are ready, and a refresh and a chunk more at the end."""
    bundle = with_split(scene.path / "split", scene.bundle())
    scene.start()
    scene.fields = {"prefix": {"period_s": 0.3}}
    facts = survey(scene.settings(), bundle, scene.connect, 2.0, scene.clock())
    assert len(facts.query_s)
    assert len(facts.prefix_s)
    for refresh_s, severity, text in (
        (0.1, Severity.OK, "0.60 s"),
        (0.5, Severity.FAILED, "1.20 s"),
    ):
        told = facts._replace(prefix_s=np.full(20, refresh_s))
        (found,) = [f for rule in RULES for f in rule(told) if f.subject == "prefix"]
        assert found.severity is severity
        assert text in found.text


def test_a_bundle_for_another_robot_is_told_at_once(scene: Scene, tmp_path: Path):
    bundle = make_bundle(tmp_path / "fast", ROBOT, rate_hz=50.0)
    (found,) = run_checks(scene.settings(), bundle, scene.connect, 1.0)
    assert (found.severity, found.subject) == (Severity.FAILED, "contract")
    assert "act rate_hz: expected 50, found 20" in found.text
    assert "mend this first" in format_results([found])
