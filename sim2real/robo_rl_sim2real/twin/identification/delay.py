"""Estimates a robot's delay by comparing its motion with its simulation.

Shapes: R readings, T steps of the simulation, n joints. Times are in seconds.

A command and the reading that shows its effect are separated by two transmission delays and a
controller. The simulation includes the controller. A control loop only depends on the sum of the
two delays. This sum is identifiable from a recording without synchronised clocks: it is the time
shift at which the measured motion fits the simulated motion best, by least squares. If headers hold
the time of measurement, on any clock, they also give the scatter of arrivals and the share of lost
readings.
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


class WindowDelay(NamedTuple):
    """The delay in one window of a recording.

    Args:
        at_s: Start of the window.
        delay_s: Shift with the best fit.
        explained_variance: Share of the measured motion's variance that the shifted simulation
            explains.
    """

    at_s: float
    delay_s: float
    explained_variance: float


class ArrivalStatistics(NamedTuple):
    """Arrival statistics of the readings, from their headers; both are NaN without headers.

    Args:
        jitter_s: Width of a uniform distribution of delays.
        loss: Share of lost readings.
    """

    jitter_s: float
    loss: float


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


def arrival_statistics(courses: list[TrajectorySegment]) -> ArrivalStatistics:
    """Return the arrival statistics of all trajectories together."""
    scatter, came, sent = [np.zeros(0)], 0, 0
    for course in courses:
        steps = np.diff(course.measured_s)
        if not len(steps) or not (np.isfinite(steps).all() and (steps > 0.0).mean() > 0.5):
            return ArrivalStatistics(np.nan, np.nan)
        late_s = course.received_s - course.measured_s
        scatter.append(late_s - _floor(course.received_s, late_s))
        came += len(course.measured_s)
        sent += round(np.ptp(course.measured_s) / float(np.median(np.abs(steps)))) + 1
    widest_s = float(np.quantile(np.concatenate(scatter), 0.95)) / 0.95
    return ArrivalStatistics(widest_s, max(0.0, 1.0 - came / sent))


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
    late_s = tried[best] + _STEP_S * _vertex(costs, best)
    least = min(costs[best], _cost(came_s - late_s, pos, model))
    return WindowDelay(at_s, float(late_s), 1.0 - least / float((pos**2).sum()))


def _cost(at_s: Values, pos: Values, model: SimulatedResponse) -> float:
    """Return the sum of squared residuals of the motion (R, n) for the simulation at ``at_s``."""
    columns = [np.interp(at_s, model.at_s, column) for column in model.pos.T]
    return float(((pos - _centred(np.stack(columns, axis=1))) ** 2).sum())


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


def _floor(at_s: Values, late_s: Values, block_s: float = 5.0) -> Values:
    """Return the least delay around each reading, (R,); clock drift changes it slowly."""
    block = ((at_s - at_s[0]) // block_s).astype(int)
    block = np.minimum(block, max(0, int(np.ptp(at_s) // block_s) - 1))  # no short block at the end
    numbers, place = np.unique(block, return_inverse=True)  # a block may have no reading
    least = np.array([late_s[block == i].min() for i in numbers])
    return least[place]
