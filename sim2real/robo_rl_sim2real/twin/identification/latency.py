"""Estimates the latency setting of training from recordings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError, Notice
from robo_rl_sim2real.convert.bag_reader import open_bag
from robo_rl_sim2real.convert.conversion_spec import ConversionSpec, conversion_spec
from robo_rl_sim2real.convert.recordings import find_readable
from robo_rl_sim2real.simulated.world import SimWorld
from robo_rl_sim2real.twin.identification.delay import (
    ArrivalStatistics,
    WindowDelay,
    arrival_statistics,
    window_delays,
)
from robo_rl_sim2real.twin.identification.simulated_response import simulate_response
from robo_rl_sim2real.twin.identification.trajectories import TrajectorySegment, trajectory_segments

Make = Callable[[ConversionSpec], SimWorld]
"""Makes a world of the recorded task."""


class LatencyEstimate(NamedTuple):
    """The estimated latency.

    Args:
        shifts: Delays of the accepted windows.
        num_rejected: Number of windows that the simulation does not explain.
        arrivals: Arrival statistics of the readings.
    """

    shifts: list[WindowDelay]
    num_rejected: int
    arrivals: ArrivalStatistics

    @property
    def range_s(self) -> tuple[float, float]:
        """Least delays, 5th to 95th percentile over windows, without half the jitter."""
        late_s = np.array([shift.delay_s for shift in self.shifts])
        least_s = late_s - np.nan_to_num(self.arrivals.jitter_s) / 2.0
        low, high = np.quantile(least_s, (0.05, 0.95)).clip(0.0)
        return round(float(low), 4), round(float(high), 4)

    def config(self) -> dict[str, Any]:
        """Return the settings of the env ``latency``, with the whole delay in one direction.

        A control loop only depends on the sum of both directions.
        """
        jitter_s, loss = (round(float(np.nan_to_num(v)), 4) for v in self.arrivals)
        out = {"latency_s": list(self.range_s), "jitter_s": jitter_s, "loss": loss}
        return {"env": {"name": "latency", "obs_delay": out}}


class LatencyFitConfig(ConfigModel):
    """Settings of the estimate.

    Args:
        settings: Config of a deployment that gives the sources; empty for the recording's own.
        contract_from: A bundle or dataset with the commanded actions; empty for the recording's
            own.
        task: Task of the simulation; empty for the task of the contract.
        window_s: Length of a window, which has one delay.
        max_delay_s: Longest delay that is tried.
        min_explained_variance: Share of the motion's variance that the simulation must explain in
            an accepted window.
    """

    settings: str = ""
    contract_from: str = ""
    task: str = ""
    window_s: float = Field(default=2.0, gt=0.1)
    max_delay_s: float = Field(default=0.4, gt=0.0)
    min_explained_variance: float = Field(default=0.8, gt=0.0, lt=1.0)


def fit_latency(run: Path, cfg: LatencyFitConfig, make: Make) -> LatencyEstimate:
    """Return the latency in a recording, or in all recordings of a folder.

    Args:
        run: Recording or folder.
        cfg: See ``LatencyFitConfig``.
        make: Makes a world of the recorded task.

    Raises:
        DataError: There is no recording, the robot hardly moved, its motion differs from the
            simulation, or the delay exceeds ``max_delay_s``.
    """
    found, seen = list[WindowDelay](), list[TrajectorySegment]()
    for bag in _bags(run):
        with open_bag(bag) as reader:
            want = conversion_spec(reader, cfg.settings, cfg.contract_from)
            made = trajectory_segments(reader, want)
        world = make(want)
        try:
            for course in made:
                found += window_delays(
                    course, simulate_response(world, course), cfg.window_s, cfg.max_delay_s
                )
        finally:
            world.close()
        seen += made
    good = [shift for shift in found if shift.explained_variance >= cfg.min_explained_variance]
    _demand(run, cfg, found, good)
    return LatencyEstimate(good, len(found) - len(good), arrival_statistics(seen))


def _bags(run: Path) -> list[Path]:
    """Return the recordings to read; a ``Notice`` names each one that is left out."""
    bags, notes = find_readable(run)
    for note in notes:
        warnings.warn(note, Notice, stacklevel=2)
    return bags


def _demand(
    run: Path, cfg: LatencyFitConfig, found: list[WindowDelay], good: list[WindowDelay]
) -> None:
    if not found:
        raise DataError(
            "the robot hardly moved under commands",
            where=run,
            expected=f"motion for more than {cfg.max_delay_s + cfg.window_s} s",
            hint="record it while it does its task, or say a smaller window_s",
        )
    if not good:
        best = max(shift.explained_variance for shift in found)
        raise DataError(
            "the robot moved otherwise than the simulated one",
            where=run,
            expected=f"{cfg.min_explained_variance:.0%} of its motion explained",
            found=f"{best:.0%} at best",
            hint="is it the same robot, with the same gains? A longer delay needs max_delay_s",
        )
    if np.median([shift.delay_s for shift in good]) > cfg.max_delay_s - 0.01:
        raise DataError("later than was looked for", where=run, hint="say a longer max_delay_s")
