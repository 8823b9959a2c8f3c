"""One file for all of a deployment: ``configs/deploy/*.yaml``, whatever the transport.

What is left empty comes from the robot's description.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np

from robo_rl.config import ConfigModel
from robo_rl.errors import ConfigError
from robo_rl.export.manifest import Contract
from robo_rl.registry import Component, component, default
from robo_rl.robot import Robot
from robo_rl_sim2real.chunks import ChunkScheduler
from robo_rl_sim2real.contract import Commanded, commanded
from robo_rl_sim2real.messages import Kind
from robo_rl_sim2real.observe import Observer, Source
from robo_rl_sim2real.planner import InlinePlanner, Planner, Query, ThreadPlanner
from robo_rl_sim2real.runtime import Joints, Parts, Runtime
from robo_rl_sim2real.safety import Safety


class Out(ConfigModel):
    """Where commands go.

    Args:
        kind: A position controller's array, or a trajectory of one point.
        topic: Empty for the robot's.
        joints: Order of the controller's joints in an array; empty for the policy's.
    """

    kind: Literal["array", "trajectory"] = "array"
    topic: str = ""
    joints: tuple[str, ...] = ()


class Settings(ConfigModel):
    """A deployment.

    Args:
        robot: What it runs on.
        observe: Item of the observation → where it comes from.
        joint_states: Topic on which the joints are measured; empty for the robot's.
        command: Where commands go.
        estop: Topic of the emergency stop: true presses it, false releases it.
        control: Topic of requests, ``activate``, ``deactivate`` or ``reset``.
        state: Topic on which the state is said.
        start: Pose from which the policy may begin; empty for the robot's home.
        transport: How it talks.
        planner: Whether the policy is asked within a tick or in a thread of its own.
        runtime: Starting and ending.
        safety: Thresholds.
        chunks: How chunks are merged.
    """

    robot: Annotated[Component, component("robots")]
    observe: dict[str, Source]
    joint_states: str = ""
    command: Out = Out()
    estop: str = "/estop"
    control: str = "/policy/control"
    state: str = "/policy/state"
    start: tuple[float, ...] = ()
    transport: Annotated[Component, component("transports")] = default("dds")
    planner: Literal["inline", "thread"] = "inline"
    runtime: Runtime.Config = Runtime.Config()
    safety: Safety.Config = Safety.Config()
    chunks: ChunkScheduler.Config = ChunkScheduler.Config()


class Wiring(NamedTuple):
    """Topics in and out.

    Args:
        readings: Topic → interface, of all that is read.
        command: Topic of commands, and their interface.
        order: Where each number of a command comes from among the policy's actions.
    """

    readings: dict[str, Kind]
    command: tuple[str, Kind]
    order: list[int]


def assemble(settings: Settings, contract: Contract, query: Query) -> tuple[Runtime, Wiring]:
    """A runtime for a contract, and what it is to be connected with.

    Args:
        settings: Of the deployment.
        contract: The bundle's.
        query: Its policy.

    Raises:
        BundleError: The bundle does not fit the robot.
        ConfigError: An item of the observation has no source, or ``start`` another length.
    """
    robot: Robot = settings.robot.build()
    found = commanded(contract, robot)
    observer = Observer(contract, settings.observe)
    topic = settings.joint_states or robot.topics.joint_states
    runtime = Runtime(
        settings.runtime,
        Parts(
            observer,
            _planner(settings, query),
            ChunkScheduler(settings.chunks, contract.exec_horizon),
            Safety(settings.safety, found.limits, found.home),
        ),
        Joints(topic, found.names, _start(settings, found), contract.act.reference == "delta"),
    )
    readings = {**observer.topics, topic: Kind.JOINT_STATES}
    return runtime, Wiring(readings, _out(settings, robot), _order(settings, found.names))


def _planner(settings: Settings, query: Query) -> Planner:
    return InlinePlanner(query) if settings.planner == "inline" else ThreadPlanner(query)


def _start(settings: Settings, found: Commanded) -> np.ndarray:
    if not settings.start:
        return found.home
    if len(settings.start) != len(found.names):
        expected = f"{len(found.names)} positions, of {', '.join(found.names)}"
        raise ConfigError("start", expected=expected, found=len(settings.start))
    return np.array(settings.start)


def _order(settings: Settings, names: tuple[str, ...]) -> list[int]:
    wanted = settings.command.joints or names
    if sorted(wanted) != sorted(names):
        raise ConfigError("command.joints", expected=", ".join(names), found=", ".join(wanted))
    return [names.index(name) for name in wanted]


def _out(settings: Settings, robot: Robot) -> tuple[str, Kind]:
    if settings.command.kind == "array":
        return settings.command.topic or robot.topics.command, Kind.ARRAY
    return settings.command.topic or robot.topics.trajectory, Kind.TRAJECTORY
