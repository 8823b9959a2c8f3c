"""What is done about a policy process, case by case."""

from __future__ import annotations

import numpy as np
import pytest
from small_limits import JOINTS

from robo_rl_sim2real.braking import Motion
from robo_rl_sim2real.watchdog.block import Beat, Phase
from robo_rl_sim2real.watchdog.judge import Life, Verdict, judge

STILL = Motion(*np.zeros((3, JOINTS)))


def verdict(phase: Phase | None, life: Life, age_s: float, patience_s: float = 0.07) -> Verdict:
    beat = None if phase is None else Beat(1, 100.0, phase, STILL)
    return judge(beat, life, 100.0 + age_s, patience_s).verdict


@pytest.mark.parametrize(
    ("phase", "life", "age_s", "expected"),
    [
        (Phase.SENDING, Life.RUNS, 0.069, Verdict.WATCH),
        (Phase.SENDING, Life.RUNS, 0.071, Verdict.STOP),
        (Phase.SENDING, Life.GONE, 0.0, Verdict.STOP),
        (Phase.SENDING, Life.STOPPED, 0.0, Verdict.STOP),
        (Phase.SILENT, Life.RUNS, 1e6, Verdict.WATCH),
        (Phase.SILENT, Life.STOPPED, 1e6, Verdict.WATCH),
        (Phase.SILENT, Life.GONE, 0.0, Verdict.LEAVE),
        (Phase.ENDED, Life.RUNS, 0.0, Verdict.LEAVE),
        (Phase.ENDED, Life.GONE, 1e6, Verdict.LEAVE),
        (None, Life.RUNS, 0.0, Verdict.WATCH),
        (None, Life.GONE, 0.0, Verdict.LEAVE),
    ],
)
def test_only_one_that_sends_commands_is_stopped(phase, life, age_s, expected):
    assert verdict(phase, life, age_s) is expected


@pytest.mark.parametrize("rate_hz", [10, 20, 50, 500])
def test_a_late_tick_is_no_alarm_and_a_hang_is_one_within_its_period_and_the_grace(rate_hz):
    """Ticks by turns in time and 40 ms late, then none."""
    dt_s, grace_s = 1.0 / rate_hz, 0.05
    times = np.arange(1, 200) * dt_s + 0.04 * (np.arange(1, 200) % 2)
    looks = np.arange(0.0, times[-1] + 0.5, 0.002)
    alarms = [
        now_s
        for now_s in looks[looks > times[0]]
        if judge(
            Beat(1, float(times[times <= now_s].max()), Phase.SENDING, STILL),
            Life.RUNS,
            float(now_s),
            dt_s + grace_s,
        ).verdict
        is Verdict.STOP
    ]
    assert times.max() < alarms[0] < times.max() + dt_s + grace_s + 0.003
