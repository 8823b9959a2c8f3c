"""What is done about a policy process, case by case."""

from __future__ import annotations

import numpy as np
import pytest
from small_limits import JOINTS

from robo_rl_sim2real.control.commands.braking import Motion
from robo_rl_sim2real.watchdog.assessment import (
    ProcessState,
    SilenceLimits,
    SilenceTimer,
    WatchdogAction,
    assess,
)
from robo_rl_sim2real.watchdog.heartbeat import Heartbeat, Phase

STILL = Motion(*np.zeros((3, JOINTS)))


PATIENCE = SilenceLimits(late_s=0.07, hang_timeout_s=1.05)


def verdict(phase: Phase | None, life: ProcessState, age_s: float) -> WatchdogAction:
    beat = None if phase is None else Heartbeat(1, 100.0, phase, STILL)
    return assess(beat, life, age_s, age_s, PATIENCE).action


@pytest.mark.parametrize(
    ("phase", "life", "age_s", "expected"),
    [
        (Phase.SENDING, ProcessState.RUNS, 0.069, WatchdogAction.WATCH),
        (Phase.SENDING, ProcessState.RUNS, 0.071, WatchdogAction.STAND),
        (Phase.SENDING, ProcessState.RUNS, 1.04, WatchdogAction.STAND),
        (Phase.SENDING, ProcessState.RUNS, 1.06, WatchdogAction.STOP),
        (Phase.SENDING, ProcessState.GONE, 0.0, WatchdogAction.STOP),
        (Phase.SENDING, ProcessState.STOPPED, 0.0, WatchdogAction.STOP),
        (Phase.SILENT, ProcessState.RUNS, 1e6, WatchdogAction.WATCH),
        (Phase.SILENT, ProcessState.STOPPED, 1e6, WatchdogAction.WATCH),
        (Phase.SILENT, ProcessState.GONE, 0.0, WatchdogAction.LEAVE),
        (Phase.ENDED, ProcessState.RUNS, 0.0, WatchdogAction.LEAVE),
        (Phase.ENDED, ProcessState.GONE, 1e6, WatchdogAction.LEAVE),
        (None, ProcessState.RUNS, 0.0, WatchdogAction.WATCH),
        (None, ProcessState.GONE, 0.0, WatchdogAction.LEAVE),
    ],
)
def test_only_one_that_sends_commands_is_stopped(phase, life, age_s, expected):
    assert verdict(phase, life, age_s) is expected


def test_who_died_silent_is_told_apart_from_who_ended_in_order():
    beats = {phase: Heartbeat(1, 100.0, phase, STILL) for phase in (Phase.SILENT, Phase.ENDED)}
    why = {
        phase: assess(beat, ProcessState.GONE, 0.0, 0.0, PATIENCE).reason
        for phase, beat in beats.items()
    }
    assert why == {Phase.SILENT: "died", Phase.ENDED: ""}


@pytest.mark.parametrize("rate_hz", [10, 20, 50, 500])
def test_late_ticks_are_no_alarm_and_a_hang_is_one_within_its_patience(rate_hz):
    """Ticks by turns in time and 400 ms late, as on a busy machine, then none."""
    dt_s, hang_timeout_s = max(1.0 / rate_hz, 0.45), 1.0
    times = np.arange(1, 20) * dt_s + 0.4 * (np.arange(1, 20) % 2)
    looks, silence = np.arange(times[0], times[-1] + 2.0, 0.005), SilenceTimer()
    patience = SilenceLimits(1.0 / rate_hz + 0.05, 1.0 / rate_hz + hang_timeout_s)
    alarms = list[float]()
    for now_s in looks:
        number = int((times <= now_s).sum())
        beat, age_s = Heartbeat(number, 0.0, Phase.SENDING, STILL), now_s - times[number - 1]
        found = assess(beat, ProcessState.RUNS, age_s, silence.update(number, now_s), patience)
        alarms += [now_s] * (found.action is WatchdogAction.STOP)
    assert times.max() < alarms[0] < times.max() + patience.hang_timeout_s + 0.015


def test_what_the_listener_overslept_is_no_silence():
    """The machine stood still for 10 s: the other side had no chance to say anything."""
    silence = SilenceTimer(most_s=0.1)
    silence.update(1, 100.0)
    assert silence.update(1, 110.0) == pytest.approx(0.1)
    assert silence.update(1, 110.05) == pytest.approx(0.15)
    assert silence.update(2, 110.06) == 0.0
