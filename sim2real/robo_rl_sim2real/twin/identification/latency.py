"""Estimates the latency setting of training from recordings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError, Notice
from robo_rl_sim2real.convert.bag_reader import open_bag
from robo_rl_sim2real.convert.conversion_spec import ConversionSpec, conversion_spec
from robo_rl_sim2real.convert.recordings import find_readable
from robo_rl_sim2real.recording.topics import SENT
from robo_rl_sim2real.simulated.world import SimWorld
from robo_rl_sim2real.twin.identification.arrivals import ArrivalStatistics, arrival_statistics
from robo_rl_sim2real.twin.identification.delay import WindowDelay, window_delays
from robo_rl_sim2real.twin.identification.simulated_response import simulate_response
from robo_rl_sim2real.twin.identification.trajectories import TrajectorySegment, trajectory_segments

Make = Callable[[ConversionSpec], SimWorld]
"""Makes a world of the recorded task."""
_Content = tuple[ConversionSpec, list[TrajectorySegment]]


class LatencyEstimate(NamedTuple):
    """The estimated latency.

    Args:
        shifts: Delays of the accepted windows.
        num_rejected: Number of windows that the simulation does not explain.
        num_uninformative: Number of explained windows whose motion tells no delay.
        arrivals: Arrival statistics of the readings.
        dt_s: Control period of the recorded policy.
    """

    shifts: list[WindowDelay]
    num_rejected: int
    num_uninformative: int
    arrivals: ArrivalStatistics
    dt_s: float

    @property
    def period_loss(self) -> float:
        """Probability that all readings of a control period are lost; NaN if unknown."""
        return self.arrivals.loss_per_period(self.dt_s)

    @property
    def range_s(self) -> tuple[float, float]:
        """Least delays, 5th to 95th percentile over windows, without half the jitter."""
        late_s = np.array([shift.delay_s for shift in self.shifts])
        least_s = late_s - np.nan_to_num(self.arrivals.jitter_s) / 2.0
        low, high = np.quantile(least_s, (0.05, 0.95)).clip(0.0)
        return round(float(low), 4), round(float(high), 4)

    def config(self) -> dict[str, Any]:
        """Return the settings of the env ``latency``, with the whole delay in one direction.

        A control loop only depends on the sum of both directions. The env loses one message per
        control step, hence ``period_loss``.
        """
        known = (np.nan_to_num(v) for v in (self.arrivals.jitter_s, self.period_loss))
        jitter_s, loss = (round(float(v), 4) for v in known)
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
        DataError: There is no recording with commands, control rates differ, the robot hardly
            moved, its motion differs from the simulation or tells no delay, or the delay exceeds
            ``max_delay_s``.
    """
    read = _read_all(run, cfg)
    dt_s = _control_period_s(run, [want for want, _ in read])
    found = [each for want, made in read for each in _windows(make(want), made, cfg)]
    explained = [each for each in found if each.explained_variance >= cfg.min_explained_variance]
    good = [each for each in explained if each.is_precise and each.is_unique]
    _demand_explained(run, cfg, found, explained)
    _demand_delay(run, cfg, explained, good)
    rejected, silent = len(found) - len(explained), len(explained) - len(good)
    arrivals = arrival_statistics([course for _, made in read for course in made])
    return LatencyEstimate(good, rejected, silent, arrivals, dt_s)


def _read_all(run: Path, cfg: LatencyFitConfig) -> list[_Content]:
    """Return the content of the recordings; a ``Notice`` names each one that is left out."""
    bags, notes = find_readable(run)
    read = list[_Content]()
    for bag in bags:
        if (made := _read(bag, cfg)) is None:
            notes.append(f"{bag.name}: left out, because no command was sent")
        else:
            read.append(made)
    if not read:
        raise DataError("no recording to estimate from", where=run, found="; ".join(notes))
    for note in notes:
        warnings.warn(note, Notice, stacklevel=2)
    return read


def _read(bag: Path, cfg: LatencyFitConfig) -> _Content | None:
    """Return the content of a recording; None of one by the node that sent no command."""
    with open_bag(bag) as reader:
        want = conversion_spec(reader, cfg.settings, cfg.contract_from)
        if want.is_own_recording and SENT not in reader.kinds:
            return None
        return want, trajectory_segments(reader, want)


def _control_period_s(run: Path, specs: list[ConversionSpec]) -> float:
    rates_hz = sorted({want.contract.act.rate_hz for want in specs})
    if len(rates_hz) > 1:
        raise DataError(
            "recordings of policies with different control rates",
            where=run,
            expected="one rate, because `loss` counts control steps",
            found=", ".join(f"{rate:g} Hz" for rate in rates_hz),
            hint="estimate the recordings of each rate alone",
        )
    return 1.0 / rates_hz[0]


def _windows(
    world: SimWorld, courses: list[TrajectorySegment], cfg: LatencyFitConfig
) -> Iterator[WindowDelay]:
    try:
        for course in courses:
            response = simulate_response(world, course)
            yield from window_delays(course, response, cfg.window_s, cfg.max_delay_s)
    finally:
        world.close()


def _demand_explained(
    run: Path, cfg: LatencyFitConfig, found: list[WindowDelay], explained: list[WindowDelay]
) -> None:
    if not found:
        raise DataError(
            "the robot hardly moved under commands",
            where=run,
            expected=f"motion for more than {cfg.max_delay_s + cfg.window_s} s",
            hint="record it while it does its task, or say a smaller window_s",
        )
    if not explained:
        best = max(each.explained_variance for each in found)
        raise DataError(
            "the robot moved otherwise than the simulated one",
            where=run,
            expected=f"{cfg.min_explained_variance:.0%} of its motion explained",
            found=f"{best:.0%} at best",
            hint="is it the same robot, with the same gains? A longer delay needs max_delay_s",
        )


def _demand_delay(
    run: Path, cfg: LatencyFitConfig, explained: list[WindowDelay], good: list[WindowDelay]
) -> None:
    precise = [each for each in explained if each.is_precise]
    if np.median([each.delay_s for each in precise or explained]) > cfg.max_delay_s - 0.01:
        raise DataError("later than was looked for", where=run, hint="say a longer max_delay_s")
    if not good:
        raise DataError(
            "the motion tells no delay",
            where=run,
            expected="accelerations, and no repetition within max_delay_s",
            found="constant speeds or periodic motion",
            hint="record joints that move with changing speed",
        )
