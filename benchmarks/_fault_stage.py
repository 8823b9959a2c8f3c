"""A panda behind the topics of a node, on its own bus and clock, for benchmarks of faults.

The policy of the test bundle returns one of its readings, the desired joint positions, so that a
test can steer the robot. By default the robot is at its last command; a test can define its
dynamics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from robo_rl.api.robot import Robot
from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import (
    ClosedLoopParity,
    Contract,
    Manifest,
    NumericParity,
    QueryLatency,
)
from robo_rl.config.models import validate_strict
from robo_rl.config.registry import load
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl_sim2real.control.commands.braking import Limits
from robo_rl_sim2real.control.runtime import TickOutput
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.transport.base import COMMAND
from robo_rl_sim2real.transport.loopback import Bus, Loopback

Array = NDArray[np.float64]
Pass = Callable[[str, Reading], Sequence[tuple[str, Reading]]]

ROBOT: Robot = load("robots", "panda")
NAMES = tuple(joint.name for joint in ROBOT.actuated_joints)
HORIZON, EXEC = 8, 4
DT_S = 1.0 / ROBOT.rates.control_hz
READINGS = 2  # readings of each topic per control period
WANTED, JOINTS = "/wanted", ROBOT.topics.joint_states
SETTINGS: dict[str, Any] = {
    "robot": {"name": "panda"},
    "observe": {"wanted": {"topic": WANTED, "kind": MsgType.ARRAY.value, "field": "data"}},
    "lifecycle": {"ramp_s": 0.0, "final_hold_s": 0.0, "start_tolerance_rad": 10.0},
}


def contract() -> Contract:
    """Return the contract: desired joint positions as input and as output."""
    joints = ROBOT.actuated_joints
    act = ActSpec(
        shape=(len(joints),),
        unit=",".join(joint.unit for joint in joints),
        names=ROBOT.actuator_names,
        low=tuple(joint.low for joint in joints),
        high=tuple(joint.high for joint in joints),
        rate_hz=ROBOT.rates.control_hz,
    )
    return Contract(
        policy="passes on",
        robot=ROBOT.name,
        task="made_up",
        obs=ObsSpec(items={"wanted": TensorSpec(shape=(len(joints),))}),
        obs_horizon=1,
        act=act,
        horizon=HORIZON,
        exec_horizon=EXEC,
        num_steps=1,
    )


def make_bundle(path: Path) -> Bundle:
    """Write the bundle of that contract to disk."""
    manifest = Manifest(
        contract=contract(),
        normalizer="none",
        dataset="none",
        config={},
        gates=(),
        evaluation={},
        numeric=NumericParity(max_abs=0.0, limit=1e-4, rows=1),
        closed_loop=ClosedLoopParity(
            success=1.0, episodes=1, policy_success=1.0, policy_episodes=1, low=0.0, high=1.0
        ),
        latency={"onnx": QueryLatency(p50_us=1.0, p99_us=1.0, calls=1)},
        versions={},
    )
    return Bundle.write(path, manifest, {"policy.onnx": _graph(len(NAMES))})


def _graph(size: int) -> bytes:
    """Return the graph from wanted (B, 1, n) to act (B, H, n)."""
    nothing = numpy_helper.from_array(np.zeros((1, HORIZON, size), np.float32), "nothing")
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", length, size])
        for name, length in (("wanted", 1), ("act", HORIZON))
    ]
    add = helper.make_node("Add", ["wanted", "nothing"], ["act"])
    graph = helper.make_graph([add], "passes on", ends[:1], ends[1:], [nothing])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 10
    onnx.checker.check_model(model)
    return model.SerializeToString()


def wandering_positions(now_s: float, share: float = 0.1, hz: float = 0.3) -> Array:
    """Return positions (n,) around home, within a fraction of each joint's range."""
    low, high = (
        np.array([getattr(j, end) for j in ROBOT.actuated_joints]) for end in ("low", "high")
    )
    phase = 2.0 * np.pi * hz * now_s + np.arange(len(NAMES))
    return np.clip(ROBOT.home_ctrl + share * (high - low) * np.sin(phase), low, high)


class FaultTestbed:
    """A node with a simulated panda, on a clock of its own.

    Args:
        bundle: Result of ``make_bundle``.
        follow: (position, command) → position half a period later.
        want: Time since the beginning → desired joint positions, (n,).
        fields: Further settings.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        follow: Callable[[Array, Array], Array] = lambda pos, told: told,
        want: Callable[[float], Array] | None = None,
        **fields: Any,
    ) -> None:
        self._follow, self._want = follow, want or wandering_positions
        self.now_s, self.number, self.since_s = 100.0, 0, 0.0
        self.bus = Bus(lambda: self.now_s)
        robot = Loopback(self.bus)
        self.outs = {
            JOINTS: robot.create_publisher(JOINTS, MsgType.JOINT_STATES),
            WANTED: robot.create_publisher(WANTED, MsgType.ARRAY),
        }
        self.estop = robot.create_publisher("/estop", MsgType.FLAG)
        robot.subscribe(ROBOT.topics.command, MsgType.ARRAY, self._obey, COMMAND)
        self.pos, self.told = ROBOT.home_ctrl.copy(), ROBOT.home_ctrl.copy()
        self.sent = [ROBOT.home_ctrl.copy()]
        self.heard_s = dict.fromkeys(self.outs, -np.inf)
        clock = Clock(lambda: self.now_s, lambda s: None)
        settings = validate_strict({**SETTINGS, **fields}, DeploySettings)
        self.node = Node(settings, bundle, Loopback(self.bus), clock=clock)

    @property
    def limits(self) -> Limits:
        """Return the limits of the commands."""
        return self.node.runtime.parts.safety.limits

    @property
    def state(self) -> State:
        """Return the state of the node."""
        return self.node.runtime.state

    def tick(self, way: Pass = lambda topic, reading: [(topic, reading)]) -> TickOutput:
        """Run a control period: readings pass through ``way``, then the node ticks."""
        for _ in range(READINGS):
            self.now_s += DT_S / READINGS
            for topic, reading in self.say():
                for arrived, message in way(topic, reading):
                    self.outs[arrived].send(message)
                    self.heard_s[arrived] = self.now_s
        self.settle()
        self.number += 1
        return self.node.tick(self.number)

    def settle(self) -> None:
        """Wait before the node's tick, after all readings are sent."""

    def say(self) -> list[tuple[str, Reading]]:
        """Return the current readings of the robot."""
        aim = self._want(self.now_s - self.since_s)
        self.pos = self._follow(self.pos, self.told)
        return [
            (JOINTS, Reading({"position": self.pos.copy()}, NAMES, self.now_s)),
            (WANTED, Reading({"data": aim}, (), self.now_s)),
        ]

    def begin(self) -> None:
        """Activate the node from any state."""
        while not self.state.moves:
            self.node.request("reset" if self.state is State.FAULTED else "activate")
            self.tick()

    def press(self, pressed: bool) -> None:
        """Press or release the emergency stop."""
        self.estop.send(Reading({"data": np.asarray(pressed)}, (), 0.0))

    def excess(self) -> float:
        """Return by which fraction the commands exceed their worst limit; at most 0 if none."""
        return excess(np.stack(self.sent), self.limits)

    def _obey(self, reading: Reading) -> None:
        self.told = reading.fields["data"]
        self.sent.append(self.told)


def excess(commands: Array, within: Limits) -> float:
    """Return by which fraction commands (T, …, n) from rest exceed their worst limit."""
    pos = np.concatenate([np.repeat(commands[:1], 3, axis=0), commands])
    worst = float(np.maximum(within.low - pos, pos - within.high).max())
    for bound in (within.velocity, within.acceleration, within.jerk):
        pos = np.diff(pos, axis=0) / within.dt_s
        worst = max(worst, float((np.abs(pos) / bound).max()) - 1.0)
    return worst
