"""The latency of training, as recordings have it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError
from robo_rl_sim2real.convert.bags import bags_of, is_replaced, opened
from robo_rl_sim2real.convert.wanted import Wanted, wanted
from robo_rl_sim2real.simulated.world import SimWorld
from robo_rl_sim2real.twin.identification.delay import Arrivals, Shift, arrivals, shifts
from robo_rl_sim2real.twin.identification.simulated_response import respond
from robo_rl_sim2real.twin.identification.trajectories import Course, courses

Make = Callable[[Wanted], SimWorld]
"""A world of the task that was recorded."""


class Latency(NamedTuple):
    """What was found.

    Args:
        shifts: Of the windows that count.
        left_out: How many the simulation does not explain.
        arrivals: Of the readings.
    """

    shifts: list[Shift]
    left_out: int
    arrivals: Arrivals

    @property
    def range_s(self) -> tuple[float, float]:
        """Least delays, 5th to 95th percentile over windows; half the jitter is no part of it."""
        late_s = np.array([shift.late_s for shift in self.shifts])
        least_s = late_s - np.nan_to_num(self.arrivals.jitter_s) / 2.0
        low, high = np.quantile(least_s, (0.05, 0.95)).clip(0.0)
        return round(float(low), 4), round(float(high), 4)

    def config(self) -> dict[str, Any]:
        """Settings of the env ``latency``: all in one direction, for a loop sees only the sum."""
        jitter_s, loss = (round(float(np.nan_to_num(v)), 4) for v in self.arrivals)
        out = {"latency_s": list(self.range_s), "jitter_s": jitter_s, "loss": loss}
        return {"env": {"name": "latency", "out": out}}


class Config(ConfigModel):
    """How it is found.

    Args:
        settings: Config of a deployment that says where things are; empty for what the recording
            says itself.
        like: A bundle or a dataset whose actions were commanded; empty likewise.
        task: In whose simulation it is played; empty for the one that they were trained for.
        window_s: How long a piece is of which one delay is found.
        longest_s: Longest delay that is looked for.
        explained: Share of the motion's variance that the simulation must explain for a piece to
            count.
    """

    settings: str = ""
    like: str = ""
    task: str = ""
    window_s: float = Field(default=2.0, gt=0.1)
    longest_s: float = Field(default=0.4, gt=0.0)
    explained: float = Field(default=0.8, gt=0.0, lt=1.0)


def fitted(run: Path, cfg: Config, make: Make) -> Latency:
    """Of a recording, or of all in a folder.

    Args:
        run: Where.
        cfg: See Config.
        make: Makes a world of the task that was recorded.

    Raises:
        DataError: There is no recording, the robot hardly moved in it, it moved otherwise than the
            simulated one, or it is later than was looked for.
    """
    found, seen = list[Shift](), list[Course]()
    for bag in (bag for bag in bags_of(run) if not is_replaced(bag)):
        with opened(bag) as reader:
            want = wanted(reader, cfg.settings, cfg.like)
            made = courses(reader, want)
        world = make(want)
        try:
            for course in made:
                found += shifts(course, respond(world, course), cfg.window_s, cfg.longest_s)
        finally:
            world.close()
        seen += made
    good = [shift for shift in found if shift.explained >= cfg.explained]
    _demand(run, cfg, found, good)
    return Latency(good, len(found) - len(good), arrivals(seen))


def _demand(run: Path, cfg: Config, found: list[Shift], good: list[Shift]) -> None:
    if not found:
        raise DataError(
            "the robot hardly moved under commands",
            where=run,
            expected=f"motion for more than {cfg.longest_s + cfg.window_s} s",
            hint="record it while it does its task, or say a smaller window_s",
        )
    if not good:
        best = max(shift.explained for shift in found)
        raise DataError(
            "the robot moved otherwise than the simulated one",
            where=run,
            expected=f"{cfg.explained:.0%} of its motion explained",
            found=f"{best:.0%} at best",
            hint="is it the same robot, with the same gains? A longer delay needs longest_s",
        )
    if np.median([shift.late_s for shift in good]) > cfg.longest_s - 0.01:
        raise DataError("later than was looked for", where=run, hint="say a longer longest_s")
