"""Controllers of a simulated robot: they receive commands and move it.

This module is not deployed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from robo_rl.core.errors import ConfigError, DeviceError, SpecError
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.simulated.command_inputs import (
    CommandSubscription,
    Positions,
    TrajectoryController,
    TwistController,
    command_subscriptions,
)
from robo_rl_sim2real.simulated.network_delay import NetworkDelay
from robo_rl_sim2real.simulated.world import SimWorld
from robo_rl_sim2real.transport.base import NEWEST, Transport

_Order = Callable[[float], None]


class Controllers:
    """All controllers of a robot; the latest command applies.

    ``problem`` is the reason for the last dropped command. ``no_action`` is the reason for a
    missing action server.

    Args:
        world: World to control.
        transport: Transport of the commands.
        lag: Network delay of commands.
        rng: Random generator of the delays.
        clock: Monotonic clock.
        post: Schedules a function between two steps of the world.
    """

    def __init__(
        self,
        world: SimWorld,
        transport: Transport,
        lag: NetworkDelay.Config,
        rng: np.random.Generator,
        clock: Clock,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._world, self._lag, self._rng, self._clock, self._post = world, lag, rng, clock, post
        self.problem = self.no_action = ""
        self.reset()
        self._connect(transport)

    def reset(self) -> None:
        """Drop all commands, including delayed ones of the last episode."""
        self._into: NetworkDelay[_Order] = NetworkDelay(self._lag, self._rng)
        self._servo, self._follower = TwistController(self._world.robot), TrajectoryController()

    def step(self, now_s: float) -> None:
        """Apply the commands that are due by now."""
        self._obey(self._follower.positions(now_s))
        for order in self._into.due(now_s):
            order(now_s)
        if self._moves_hand:
            dt_s = self._world.dt_s
            self._obey(self._servo.positions(self._world.targets, now_s, dt_s))

    @property
    def _moves_hand(self) -> bool:
        hand = self._world.robot.end_effector
        return hand is not None and hand.names[0] in self._world.commanded

    def _connect(self, transport: Transport) -> None:
        topics = self._world.robot.topics
        for inlet in command_subscriptions(self._world.robot, self._world.commanded):
            transport.subscribe(inlet.topic, inlet.kind, self._hear(self._place(inlet)), NEWEST)
        if self._moves_hand:
            transport.subscribe(
                topics.ee_twist_command, MsgType.TWIST, self._hear(self._twist), NEWEST
            )
            return
        transport.subscribe(topics.trajectory, MsgType.TRAJECTORY, self._hear(self._way), NEWEST)
        try:
            transport.create_goal_server(topics.follow_joint_trajectory, self._take(self._way))
        except (ConfigError, DeviceError) as error:
            self.no_action = f"no action '{topics.follow_joint_trajectory}': {error}"

    def _hear(self, understand: Callable[[Reading], _Order]) -> Callable[[Reading], None]:
        """Return a callback that drops invalid commands."""
        take = self._take(understand)

        def hear(reading: Reading) -> None:
            try:
                take(reading)
            except SpecError as error:
                self.problem = f"a command was dropped: {error}"

        return hear

    def _take(self, understand: Callable[[Reading], _Order]) -> Callable[[Reading], None]:
        """Return a callback that raises on an invalid command, so that its goal is refused."""

        def take(reading: Reading) -> None:
            order, came_s = understand(reading), self._clock.now_s()
            self._post(lambda: self._into.put(order, came_s))

        return take

    def _place(self, inlet: CommandSubscription) -> Callable[[Reading], _Order]:
        def understand(reading: Reading) -> _Order:
            positions = inlet.read(reading)
            return lambda now_s: self._go(positions)

        return understand

    def _twist(self, reading: Reading) -> _Order:
        self._servo.check(reading)
        return lambda now_s: self._servo.set_twist(reading, now_s)

    def _way(self, reading: Reading) -> _Order:
        TrajectoryController.check(reading)
        return lambda now_s: self._follower.set_trajectory(reading, now_s, self._world.targets)

    def _go(self, positions: Positions) -> None:
        self._follower = TrajectoryController()
        self._obey(positions)

    def _obey(self, positions: Positions) -> None:
        known = {name: v for name, v in positions.items() if name in self._world.commanded}
        if known:
            self._world.command(known)
