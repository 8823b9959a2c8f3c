"""Arrival statistics of readings, from their headers, for the latency setting of training.

R is the number of readings. Times are in seconds. Headers hold the time of measurement, on any
clock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robo_rl_sim2real.messages.readings import Values
from robo_rl_sim2real.twin.identification.trajectories import TrajectorySegment


class ArrivalStatistics(NamedTuple):
    """Arrival statistics of the readings, from their headers; all are NaN without headers.

    Args:
        jitter_s: Width of a uniform distribution of delays.
        loss: Share of lost readings.
        interval_s: Median time between two measurements.
    """

    jitter_s: float
    loss: float
    interval_s: float

    def loss_per_period(self, dt_s: float) -> float:
        """Return the probability that all readings of a control period are lost.

        A period of n readings on average holds ⌊n⌋ or ⌊n⌋ + 1 of them, lost independently: the
        probability is loss^⌊n⌋ · (1 − (n − ⌊n⌋)(1 − loss)), and loss^n for whole n. Readings that
        are rarer than control periods count as one per period.

        Args:
            dt_s: Control period.
        """
        num = max(1.0, dt_s / self.interval_s)
        whole = np.floor(num + 1e-6)
        return float(self.loss**whole * (1.0 - max(0.0, num - whole) * (1.0 - self.loss)))


def arrival_statistics(courses: list[TrajectorySegment]) -> ArrivalStatistics:
    """Return the arrival statistics of all trajectories together."""
    scatter, intervals, came, sent = [np.zeros(0)], [np.zeros(0)], 0, 0
    for course in courses:
        steps = np.diff(course.measured_s)
        if not len(steps) or not (np.isfinite(steps).all() and (steps > 0.0).mean() > 0.5):
            return ArrivalStatistics(np.nan, np.nan, np.nan)
        late_s = course.received_s - course.measured_s
        scatter.append(late_s - _floor(course.received_s, late_s))
        intervals.append(np.abs(steps))
        came += len(course.measured_s)
        sent += round(np.ptp(course.measured_s) / float(np.median(intervals[-1]))) + 1
    widest_s = float(np.quantile(np.concatenate(scatter), 0.95)) / 0.95
    interval_s = float(np.median(np.concatenate(intervals)))
    return ArrivalStatistics(widest_s, max(0.0, 1.0 - came / sent), interval_s)


def _floor(at_s: Values, late_s: Values, block_s: float = 5.0) -> Values:
    """Return the least delay around each reading, (R,); clock drift changes it slowly."""
    block = ((at_s - at_s[0]) // block_s).astype(int)
    block = np.minimum(block, max(0, int(np.ptp(at_s) // block_s) - 1))  # no short block at the end
    numbers, place = np.unique(block, return_inverse=True)  # a block may have no reading
    least = np.array([late_s[block == i].min() for i in numbers])
    return least[place]
