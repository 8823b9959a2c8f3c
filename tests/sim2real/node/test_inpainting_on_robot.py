"""A policy that is slow, on a robot that goes on meanwhile: it is told what is planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_bundles import EXEC, make_bundle, with_inpainting

from robo_rl.bundle.bundle import Bundle
from robo_rl.config.models import validate_strict
from robo_rl.config.registry import load
from robo_rl.core.errors import BundleError, ConfigError
from robo_rl_sim2real.control.events import Tick
from robo_rl_sim2real.control.inference import (
    InferenceRequest,
    InferenceResult,
    InlineInferenceRunner,
)
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.transport.base import COMMAND
from robo_rl_sim2real.transport.loopback import Bus, Loopback

ROBOT = load("robots", "panda")
NAMES = tuple(joint.name for joint in ROBOT.actuated_joints)
DT_S = 1.0 / ROBOT.rates.control_hz
WATCHED, ARM = 5, np.array([1.0] * 7 + [0.0])
DELAY = 2


class Late(InlineInferenceRunner):
    """Answers that are there ``DELAY`` ticks after they were asked for."""

    tick, due = 0, 0

    @property
    def idle(self) -> bool:
        return self._answer is None

    def submit(self, question: InferenceRequest) -> None:
        self.due = self.tick + DELAY
        super().submit(question)

    def poll(self) -> InferenceResult | None:
        return super().poll() if self.tick >= self.due else None


class Noted:
    """What a node's ticks brought; see ``robo_rl_sim2real.control.events``."""

    def __init__(self) -> None:
        self.ticks = list[Tick]()

    def on_message(self, topic: str, kind: MsgType, reading: Reading) -> None:
        pass

    def on_tick(self, tick: Tick) -> None:
        self.ticks.append(tick)

    def on_event(self, event: str, what: str) -> None:
        pass

    def problems(self) -> list[str]:
        return []


def settings(**fields: Any) -> DeploySettings:
    usual = {
        "robot": {"name": "panda"},
        "observe": {"pos": {"topic": "/joint_states", "field": "position"}},
        "lifecycle": {"ramp_s": 0.0, "resume_s": 0.0},
    }
    return validate_strict({**usual, **fields}, DeploySettings)


def driven(path: Path, ticks: int, **lifecycle: float) -> list[Tick]:
    """A robot whose measured pose shakes, so that every new chunk begins somewhere else."""
    now, bus, rng = [50.0], Bus(lambda: now[0]), np.random.default_rng(0)
    bundle = with_inpainting(path / "plans", make_bundle(path / "bundle", ROBOT))
    clock = Clock(lambda: now[0], lambda seconds: None)
    fields: dict[str, Any] = {"lifecycle": {"ramp_s": 0.0, "resume_s": 0.0, **lifecycle}}
    node = Node(settings(chunks={"merge": "inpaint"}, **fields), bundle, Loopback(bus), clock=clock)
    policy, noted = node.runtime.parts.policy, Noted()
    planner = policy.inference = Late(policy.inference._query)  # pyright: ignore
    node.listeners.add(noted)
    robot = Loopback(bus)
    joints = robot.create_publisher("/joint_states", MsgType.JOINT_STATES)
    robot.subscribe(ROBOT.topics.command, MsgType.ARRAY, lambda _: None, COMMAND)
    pos = ROBOT.home_ctrl.copy()
    for number in range(1, ticks):
        shaken = pos + 0.003 * rng.standard_normal(len(pos)) * ARM
        joints.send(Reading({"position": shaken}, NAMES, 0.0))
        if number == WATCHED:
            node.request("activate")
        planner.tick = number
        sent = node.tick(number).command
        pos = pos if sent is None else sent.pos
        now[0] += DT_S
    node.close()
    return noted.ticks


def test_what_a_new_chunk_says_of_the_ticks_that_it_comes_too_late_for_is_what_was_done(
    tmp_path: Path,
):
    """From the third chunk on, when it is known how long an answer takes.

    Without a plan it would begin where the shaken robot was measured.
    """
    ticks = {tick.number: tick for tick in driven(tmp_path, 83)}
    chunks = [tick.output.chunk for tick in ticks.values() if tick.output.chunk is not None]
    assert len(chunks) > 70 // EXEC
    assert ticks[max(ticks)].output.state is State.RUNNING
    for chunk in chunks[2:]:
        assert chunk.arrived_tick - chunk.observed_tick == DELAY
        for number in range(chunk.observed_tick, chunk.arrived_tick):
            done = ticks[number].output.target
            assert done is not None
            np.testing.assert_allclose(chunk.at(number), done, atol=1e-6)
        free = chunk.act[-1] - chunk.act[-2]
        np.testing.assert_allclose(free, 0.002, atol=1e-6)  # nothing was planned that late


def test_on_a_ramp_nothing_is_planned_for_the_robot_does_not_do_it(tmp_path: Path):
    """Each chunk is the policy's own, from where the robot was measured."""
    ticks = driven(tmp_path, 30, ramp_s=10.0)
    chunks = [tick.output.chunk for tick in ticks if tick.output.chunk is not None]
    assert {tick.output.state for tick in ticks[WATCHED:]} == {State.RAMPING}
    assert len(chunks) > 3
    for chunk in chunks:
        np.testing.assert_allclose(np.diff(chunk.act, axis=0), 0.002, atol=1e-6)


def test_chunks_that_leave_nothing_to_go_on_from_are_refused(tmp_path: Path):
    bundle = with_inpainting(tmp_path / "plans", make_bundle(tmp_path / "bundle", ROBOT))
    contract = bundle.manifest.contract
    whole = contract.model_copy(update={"exec_horizon": contract.horizon})
    manifest = bundle.manifest.model_copy(update={"contract": whole, "files": {}})
    files = {name: bundle.read(name) for name in bundle.manifest.files}
    bundle = Bundle.write(tmp_path / "whole", manifest, files)
    bus = Bus(lambda: 0.0)
    with pytest.raises(ConfigError, match="nothing is left of a chunk"):
        Node(settings(chunks={"merge": "inpaint"}), bundle, Loopback(bus))
    Node(settings(chunks={"merge": "inpaint", "prefetch_ticks": 2}), bundle, Loopback(bus)).close()


def test_a_bundle_that_cannot_is_refused(tmp_path: Path):
    bundle = make_bundle(tmp_path / "bundle", ROBOT)
    bus = Bus(lambda: 0.0)
    with pytest.raises(BundleError, match=r"inpaint\.onnx.*cannot go on from what is planned"):
        Node(settings(chunks={"merge": "inpaint"}), bundle, Loopback(bus))
