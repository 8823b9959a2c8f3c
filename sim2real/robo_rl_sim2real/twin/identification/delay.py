"""Estimates a robot's delay by comparing its motion with its simulation.

Shapes: R readings, T steps of the simulation, n joints. Times are in seconds.

A command and the reading that shows its effect are separated by two transmission delays and a
controller. The simulation includes the controller. A control loop only depends on the sum of the
two delays. This sum is identifiable from a recording without synchronised clocks: it is the time
shift at which the measured motion fits the simulated motion best, by least squares. Constant
velocity fits at every shift, because a constant offset is free, and periodic motion at several.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from robo_rl_sim2real.messages.readings import Values
from robo_rl_sim2real.twin.identification.simulated_response import SimulatedResponse
from robo_rl_sim2real.twin.identification.trajectories import TrajectorySegment

_EARLIEST_S, _STEP_S = -0.05, 0.005
_MOVED_RAD = 0.005  # a joint with a smaller standard deviation is uninformative
_MAX_STANDARD_ERROR_S = 0.005
_SIGMAS = 3.0  # standard errors within which two shifts are indistinguishable
_RIVAL_DEPTH = 0.05  # share of the range of costs within which two minima are about as low


class WindowDelay(NamedTuple):
    """The delay in one window of a recording.

    Args:
        at_s: Start of the window.
        delay_s: Shift with the best fit.
        explained_variance: Share of the measured motion's variance that the shifted simulation
            explains.
        standard_error_s: Standard error of the shift, at most the range of shifts.
        is_unique: Whether the fit is best inside the range of shifts, and no distant shift fits
            about as well.
    """

    at_s: float
    delay_s: float
    explained_variance: float
    standard_error_s: float
    is_unique: bool

    @property
    def is_precise(self) -> bool:
        """Whether the velocity changes enough to determine the shift."""
        return self.standard_error_s <= _MAX_STANDARD_ERROR_S


def window_delays(
    course: TrajectorySegment, response: SimulatedResponse, window_s: float, longest_s: float
) -> list[WindowDelay]:
    """Return the delay of each window in which the robot moved.

    Args:
        course: Measured trajectory.
        response: Simulated response to the same commands.
        window_s: Length of a window.
        longest_s: Longest delay that is tried.
    """
    found = list[WindowDelay]()
    for at_s, rows in _windows(course.received_s, response.at_s[0] + longest_s, window_s):
        pos, came_s = _centred(course.pos[rows]), course.received_s[rows]
        if pos.std(0).max() > _MOVED_RAD:
            found.append(_best(at_s, came_s, pos, response, longest_s))
    return found


def _windows(came_s: Values, first_s: float, window_s: float) -> Iterator[tuple[float, Values]]:
    number = max(1, int((came_s[-1] - first_s) // window_s))
    for i in range(number):
        at_s = first_s + i * window_s
        rows = np.flatnonzero((came_s >= at_s) & (came_s < at_s + window_s))
        if len(rows) > 1:
            yield at_s, rows


def _best(
    at_s: float, came_s: Values, pos: Values, model: SimulatedResponse, longest_s: float
) -> WindowDelay:
    tried = np.arange(_EARLIEST_S, longest_s + _STEP_S / 2, _STEP_S)
    costs = np.array([_cost(came_s - late_s, pos, model) for late_s in tried])
    best = int(costs.argmin())
    late_s = float(tried[best] + _STEP_S * _vertex(costs, best))
    least = min(costs[best], _cost(came_s - late_s, pos, model))
    error_s = _standard_error_s(came_s - late_s, least / pos.size, model, np.ptp(tried))
    far = np.abs(tried - late_s) > _SIGMAS * _MAX_STANDARD_ERROR_S
    unique = 0 < best < len(tried) - 1 and not _fits(costs, least, pos.size)[far].any()
    return WindowDelay(at_s, late_s, 1.0 - least / float((pos**2).sum()), error_s, unique)


def _cost(at_s: Values, pos: Values, model: SimulatedResponse) -> float:
    """Return the sum of squared residuals of the motion (R, n) for the simulation at ``at_s``."""
    return float(((pos - _simulated(at_s, model)) ** 2).sum())


def _simulated(at_s: Values, model: SimulatedResponse) -> Values:
    """Return the centred simulated motion (R, n) at times (R,)."""
    return _centred(np.stack([np.interp(at_s, model.at_s, pos) for pos in model.pos.T], axis=1))


def _standard_error_s(
    at_s: Values, variance: float, model: SimulatedResponse, most_s: float
) -> float:
    """Return the standard error of a time shift with a free offset, at most ``most_s``.

    To first order a shift by δ changes the simulated motion by −δv. Least squares of white noise
    with variance σ² then gives var δ = σ² / Σ(v − v̄)², the Cramér–Rao bound of a delay against a
    known waveform (Quazi, An overview on the time delay estimate in active and passive systems
    for target localization, IEEE Trans. ASSP 29(3), 1981): v − v̄ instead of v, because the offset
    is estimated too.

    Args:
        at_s: (R,) times of the simulation.
        variance: σ², the mean squared residual.
        model: Simulated motion.
        most_s: Range of shifts.
    """
    change = _simulated(at_s + _STEP_S, model) - _simulated(at_s - _STEP_S, model)
    speed = float(np.linalg.norm(change)) / (2.0 * _STEP_S)
    noise = float(np.sqrt(variance))
    return noise / speed if noise < speed * most_s else float(most_s)


def _fits(costs: Values, least: float, size: int) -> Values:
    """Return which shifts fit about as well as the best, (K,), from K costs.

    These are the shifts inside the likelihood-ratio interval, and other minima that are about as
    low. Minima have a wider margin, since no two periods of a motion are equal.

    Args:
        costs: (K,) sums of squared residuals.
        least: The least sum.
        size: Number of residuals.
    """
    padded = np.pad(costs, 1, constant_values=np.inf)
    is_minimum = (costs <= padded[:-2]) & (costs <= padded[2:])
    inside = costs <= least + _SIGMAS**2 * least / size
    return inside | (is_minimum & (costs <= least + _RIVAL_DEPTH * np.ptp(costs)))


def _vertex(costs: Values, best: int) -> float:
    """Return the vertex of the parabola through the least cost and its neighbours, in steps."""
    if not 0 < best < len(costs) - 1:
        return 0.0
    left, middle, right = costs[best - 1 : best + 2]
    bend = left - 2.0 * middle + right
    return float(0.5 * (left - right) / bend) if bend > 0.0 else 0.0


def _centred(pos: Values) -> Values:
    """Return the motion without constant offsets, such as from gravity or calibration."""
    return pos - pos.mean(0)
