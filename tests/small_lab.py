"""A simulated panda on a clock of its own, for whoever commands it or listens in lock-step."""

from __future__ import annotations

from typing import Any

from robo_rl.config.component import component
from robo_rl.config.models import validate_strict
from robo_rl_sim2real.control.runtime import TickOutput
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.simulated.robot import SimRobot
from robo_rl_sim2real.simulated.world import SimWorld
from robo_rl_sim2real.transport.loopback import Bus, Loopback

DT_S, PERIOD = 0.01, 5


def world_of(task: Any, dt_s: float = DT_S) -> SimWorld:
    """A world of a task, by name or settings."""
    backend = component("backends").make({"name": "mujoco_cpu", "threads": 1}).build()
    return SimWorld(component("tasks").make(task).build(), backend, dt_s)


class Lab:
    """The robot, and ``us``, another member of its bus.

    Args:
        task: Name or settings.
        fields: Of the simulated robot.
    """

    def __init__(self, task: Any, **fields: Any) -> None:
        self.now_s = 10.0
        self.bus = Bus(lambda: self.now_s)
        self.clock = Clock(lambda: self.now_s, self.sleep)
        world, cfg = world_of(task), validate_strict(fields, SimRobot.Config)
        self.robot = SimRobot(cfg, world, Loopback(self.bus), self.clock)
        self.us, self.topics = Loopback(self.bus), world.robot.topics
        self._periods = 0

    def tick(self) -> None:
        """The robot goes on, and time with it."""
        self.robot.tick(self.now_s)
        self.now_s += DT_S

    def drive(self, node: Node, periods: int) -> list[TickOutput]:
        """The robot, and a node that commands it as often as the panda is commanded."""
        found = list[TickOutput]()
        for _ in range(periods):
            self.robot.tick(self.now_s)
            found.append(node.tick(self._periods))
            self.now_s += DT_S
            self._periods += 1
            for _ in range(PERIOD - 1):
                self.tick()
        return found

    def sleep(self, seconds: float) -> None:
        """The robot goes on while anybody sleeps."""
        for _ in range(round(seconds / DT_S)):
            self.tick()

    def close(self) -> None:
        """End it."""
        self.robot.close()
