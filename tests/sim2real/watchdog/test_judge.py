"""What is done about a policy process, case by case."""

from __future__ import annotations

import numpy as np
import pytest
from small_limits import JOINTS

from robo_rl_sim2real.control.braking import Motion
from robo_rl_sim2real.watchdog.block import Beat, Phase
from robo_rl_sim2real.watchdog.judge import Life, Patience, Silence, Verdict, judge

STILL = Motion(*np.zeros((3, JOINTS)))


PATIENCE = Patience(late_s=0.07, hang_s=1.05)


def verdict(phase: Phase | None, life: Life, age_s: float) -> Verdict:
    beat = None if phase is None else Beat(1, 100.0, phase, STILL)
    return judge(beat, life, age_s, age_s, PATIENCE).verdict


@pytest.mark.parametrize(
    ("phase", "life", "age_s", "expected"),
    [
        (Phase.SENDING, Life.RUNS, 0.069, Verdict.WATCH),
        (Phase.SENDING, Life.RUNS, 0.071, Verdict.STAND),
        (Phase.SENDING, Life.RUNS, 1.04, Verdict.STAND),
        (Phase.SENDING, Life.RUNS, 1.06, Verdict.STOP),
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


def test_who_died_silent_is_told_apart_from_who_ended_in_order():
    beats = {phase: Beat(1, 100.0, phase, STILL) for phase in (Phase.SILENT, Phase.ENDED)}
    why = {phase: judge(beat, Life.GONE, 0.0, 0.0, PATIENCE).why for phase, beat in beats.items()}
    assert why == {Phase.SILENT: "died", Phase.ENDED: ""}


@pytest.mark.parametrize("rate_hz", [10, 20, 50, 500])
def test_late_ticks_are_no_alarm_and_a_hang_is_one_within_its_patience(rate_hz):
    """Ticks by turns in time and 400 ms late, as on a busy machine, then none."""
    dt_s, hang_s = max(1.0 / rate_hz, 0.45), 1.0
    times = np.arange(1, 20) * dt_s + 0.4 * (np.arange(1, 20) % 2)
    looks, silence = np.arange(times[0], times[-1] + 2.0, 0.005), Silence()
    patience = Patience(1.0 / rate_hz + 0.05, 1.0 / rate_hz + hang_s)
    alarms = list[float]()
    for now_s in looks:
        number = int((times <= now_s).sum())
        beat, age_s = Beat(number, 0.0, Phase.SENDING, STILL), now_s - times[number - 1]
        found = judge(beat, Life.RUNS, age_s, silence.look(number, now_s), patience)
        alarms += [now_s] * (found.verdict is Verdict.STOP)
    assert times.max() < alarms[0] < times.max() + patience.hang_s + 0.015


def test_what_the_listener_overslept_is_no_silence():
    """The machine stood still for 10 s: the other side had no chance to say anything."""
    silence = Silence(most_s=0.1)
    silence.look(1, 100.0)
    assert silence.look(1, 110.0) == pytest.approx(0.1)
    assert silence.look(1, 110.05) == pytest.approx(0.15)
    assert silence.look(2, 110.06) == 0.0
