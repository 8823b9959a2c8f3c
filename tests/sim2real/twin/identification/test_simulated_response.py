"""When the simulation obeys the commands of a recording."""

from __future__ import annotations

from typing import Any

import numpy as np

from robo_rl_sim2real.twin.identification.simulated_response import simulate_response
from robo_rl_sim2real.twin.identification.trajectories import TrajectorySegment


class Obedient:
    """A world that is where it was last told to be, one step later."""

    dt_s = 0.01

    def __init__(self) -> None:
        self.told = self.at = 0.0

    def reset(self, seed: int) -> None:
        pass

    def command(self, positions: dict[str, float]) -> None:
        self.told = positions["a"]

    def step(self) -> None:
        self.at = self.told

    def positions(self) -> dict[str, float]:
        return {"a": self.at}


def test_jitter_of_the_commands_does_not_delay_the_response():
    exact_s = 0.05 * np.arange(100)
    late_s = 0.001 * np.random.default_rng(3).standard_normal(100)
    late_s[0] = 0.0
    pos = np.sin(exact_s)[:, None]

    def response(command_s: np.ndarray) -> np.ndarray:
        nothing: Any = np.zeros(1)
        course = TrajectorySegment(("a",), command_s, pos, nothing, nothing, np.zeros((1, 1)))
        world: Any = Obedient()
        return simulate_response(world, course).pos[:490]

    np.testing.assert_array_equal(response(exact_s + late_s), response(exact_s))
