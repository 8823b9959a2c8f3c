"""A simulated robot with exactly the topics of the real one.

It publishes joint states, poses and images. It receives commands of a forward position controller,
a trajectory controller or a Cartesian controller; the last command stays in effect. The same node
therefore runs on it and on the real robot. This module is not deployed.
"""

from __future__ import annotations

import json
import queue
from collections.abc import Callable

import numpy as np
from pydantic import Field

from robo_rl.api.task import Instructed
from robo_rl.config.models import ConfigModel
from robo_rl_sim2real.core.clock import Clock, PeriodicTimer
from robo_rl_sim2real.messages.kinds import MsgType, RequiredTopicName
from robo_rl_sim2real.messages.readings import Reading, Values
from robo_rl_sim2real.simulated.cameras import SimCameras
from robo_rl_sim2real.simulated.controllers import Controllers
from robo_rl_sim2real.simulated.network_delay import NetworkDelay
from robo_rl_sim2real.simulated.world import SimWorld
from robo_rl_sim2real.transport.base import COMMAND, LATCHED, SENSOR, Publisher, Transport


class SimRobot:
    """A simulated world on a transport.

    The request ``reset`` on the topic ``control`` starts the next episode. The outcome of each
    episode is published on ``episode`` as JSON: ``{"episode": 3, "over": true, "success": true}``.

    ``outcomes`` holds the success of each finished episode.

    Args:
        cfg: See Config.
        world: World to simulate.
        transport: The robot's own transport; closed with it.
        clock: Monotonic clock.
    """

    class Config(ConfigModel):
        """Rates, delays, noise and topics of the robot.

        Args:
            rate_hz: Rate of the simulation's steps and of readings.
            sensor_delay: Network delay of readings.
            command_delay: Network delay of commands.
            position_noise: Standard deviation of measured positions, in the joint's unit or m.
            poses: Topic → name of the frame or object whose pose is published; by default
                ``/<name>_pose`` for all that the task has.
            cameras: Active cameras of the robot.
            seed: Seed of episodes, noise and delays.
            control: Topic of requests.
            instruction: Topic of what each episode asks for, in words, if the task says it.
            episode: Topic of outcomes.
        """

        rate_hz: float = Field(default=100.0, gt=0.0)
        sensor_delay: NetworkDelay.Config = NetworkDelay.Config()
        command_delay: NetworkDelay.Config = NetworkDelay.Config()
        position_noise: float = Field(default=0.0, ge=0.0)
        poses: dict[RequiredTopicName, str] = Field(default_factory=dict)
        cameras: SimCameras.Config = SimCameras.Config()
        seed: int = Field(default=0, ge=0)
        control: RequiredTopicName = "/sim/control"
        episode: RequiredTopicName = "/sim/episode"
        instruction: RequiredTopicName = "/policy/instruction"

    def __init__(
        self, cfg: Config, world: SimWorld, transport: Transport, clock: Clock | None = None
    ) -> None:
        self.cfg, self.world, self.transport = cfg, world, transport
        self.clock = clock or Clock()
        self.rng = np.random.default_rng(cfg.seed)
        self._out: NetworkDelay[tuple[Publisher, Reading]] = NetworkDelay(
            cfg.sensor_delay, self.rng
        )
        self._heard: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.controllers = Controllers(
            world, transport, cfg.command_delay, self.rng, self.clock, self._heard.put
        )
        self.ticks, self.episode, self._problem = PeriodicTimer(world.dt_s, self.clock), 0, ""
        self.outcomes = list[bool]()
        self._running = True
        self._connect()
        self._reset()

    @property
    def problem(self) -> str:
        """The last invalid request or command; empty for none."""
        return self._problem or self.controllers.problem

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Simulate in real time until ``stop``, or until ``until`` returns True."""
        for _ in self.ticks:
            self.tick(self.clock.now_s())
            if not self._running or until():
                break

    def stop(self) -> None:
        """End ``run``; from any thread."""
        self._running = False

    def close(self) -> None:
        """Close the transport and the world."""
        self.transport.close()
        self.world.close()

    def tick(self, now_s: float) -> None:
        """Step the world, publish its state, and apply the received commands."""
        while not self._heard.empty():
            self._heard.get()()
        was_over = self.world.episode_over
        self.world.step()
        self._measure(now_s)
        for publisher, reading in self._out.due(now_s):
            publisher.send(reading)
        if self.world.episode_over and not was_over:
            self.outcomes.append(self.world.success)
            self._tell()
        self.controllers.step(now_s)

    def _connect(self) -> None:
        robot, transport = self.world.robot, self.transport
        self._joints = transport.create_publisher(
            robot.topics.joint_states, MsgType.JOINT_STATES, SENSOR
        )
        poses = self.cfg.poses or {f"/{name}_pose": name for name in self.world.poses()}
        self._poses = {
            name: transport.create_publisher(topic, MsgType.POSE, SENSOR)
            for topic, name in poses.items()
        }
        cameras = self.cfg.cameras
        self._cameras = (
            SimCameras(cameras, self.world, transport) if cameras.names or cameras.scene else None
        )
        self._episode = transport.create_publisher(self.cfg.episode, MsgType.TEXT, LATCHED)
        self._words = (
            transport.create_publisher(self.cfg.instruction, MsgType.TEXT, LATCHED)
            if isinstance(self.world.task, Instructed)
            else None
        )
        transport.subscribe(self.cfg.control, MsgType.TEXT, self._request, COMMAND)

    def _measure(self, now_s: float) -> None:
        names = self.world.robot.joint_names
        pos, vel = self.world.joint_positions(), self.world.joint_velocities()
        fields: dict[str, Values] = {
            "position": self._noisy(np.array([pos[name] for name in names])),
            "velocity": np.array([vel[name] for name in names]),
        }
        self._out.put((self._joints, Reading(fields, names, now_s)), now_s)
        for name, publisher in self._poses.items():
            pose = self.world.pose(name)
            pose["position"] = self._noisy(pose["position"])
            pose["frame"] = np.asarray(self.world.robot.frames.base)
            self._out.put((publisher, Reading(pose, (), now_s)), now_s)
        for taken in self._cameras.tick(now_s) if self._cameras else ():
            self._out.put(taken, taken[1].stamp_s)

    def _noisy(self, value: Values) -> Values:
        return value + self.cfg.position_noise * self.rng.standard_normal(value.shape)

    def _request(self, reading: Reading) -> None:
        if str(reading.fields["data"]) == "reset":
            self._heard.put(self._reset)
        else:
            self._problem = f"no request '{reading.fields['data']}': reset"

    def _reset(self) -> None:
        self.episode += 1
        self.world.reset(self.cfg.seed * 1_000_003 + self.episode)
        self.controllers.reset()
        if self._words is not None:
            self._words.send(Reading({"data": np.asarray(self.world.instruction)}, (), 0.0))
        self._tell()

    def _tell(self) -> None:
        outcome = {
            "episode": self.episode,
            "over": self.world.episode_over,
            "success": self.world.success,
        }
        self._episode.send(Reading({"data": np.asarray(json.dumps(outcome))}, (), 0.0))
