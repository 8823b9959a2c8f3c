"""Faults of messages: late, lost, reordered, duplicated, of another clock or another robot."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np
from _fault_stage import (
    DT_S,
    JOINTS,
    NAMES,
    READINGS,
    SETTINGS,
    WANTED,
    FaultTestbed,
    Pass,
    contract,
)
from _fault_table import TOLERANCE, TrialCounts

from robo_rl.bundle.bundle import Bundle
from robo_rl.config.models import validate_strict
from robo_rl.core.errors import BundleError
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType, to_message, to_reading
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.settings import DeploySettings, build_runtime
from robo_rl_sim2real.simulated.network_delay import NetworkDelay
from robo_rl_sim2real.transport.dds.codec import Codec

RECOVERY_S = 0.5
FAULTY, PATIENCE = 60, 40  # ticks of a fault, and ticks to recover
KINDS = {JOINTS: MsgType.JOINT_STATES, WANTED: MsgType.ARRAY}


def stale(bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Run ticks in which topics fall silent at random, for up to ten periods."""
    rng, stage = np.random.default_rng(first), FaultTestbed(bundle)
    silent, violations, oldest_s = dict.fromkeys(KINDS, 0), 0, 0.0

    def way(topic: str, reading: Reading) -> list[tuple[str, Reading]]:
        silent[topic] -= 1
        if silent[topic] < 0 and rng.random() < 0.1:
            silent[topic] = int(rng.integers(1, 10 * READINGS))
        return [] if silent[topic] > 0 else [(topic, reading)]

    stage.begin()
    for _ in range(number):
        output = stage.tick(way)
        age_s = stage.now_s - min(stage.heard_s.values())
        if output.command is not None and output.command.reason is None:
            oldest_s = max(oldest_s, age_s)
            violations += age_s > 0.1 + 1e-9
        if not stage.state.moves:
            stage.begin()
    excess = stage.excess()
    worst = {"followed a reading of s": oldest_s, "excess": excess}
    return TrialCounts(number, violations + (excess > TOLERANCE), worst)


def on_the_way(
    lag: NetworkDelay.Config, copies: int, bundle: Bundle, first: int, number: int
) -> TrialCounts:
    """Run ticks over a faulty network; after each 60 ticks, the policy must recover."""
    rng, stage = np.random.default_rng(first), FaultTestbed(bundle, lifecycle=_gentle())
    longest, violations = 0, 0
    stage.begin()
    for _ in range(-(-number // FAULTY)):
        way = _way(NetworkDelay(lag, rng), stage, copies)
        for _ in range(FAULTY):
            stage.tick(way)
        took = 0
        while stage.state is not State.RUNNING and took < PATIENCE:
            stage.tick()
            took += 1
        longest = max(longest, took)
        violations += took * DT_S > RECOVERY_S
        if stage.state is not State.RUNNING:
            stage.begin()
    excess = stage.excess()
    worst = {"back after s": longest * DT_S, "excess": excess}
    return TrialCounts(number, violations + (excess > TOLERANCE), worst)


def _gentle() -> dict[str, float]:
    return {"ramp_s": 0.0, "resume_s": 0.3, "final_hold_s": 0.0, "start_tolerance_rad": 10.0}


def _way(lag: NetworkDelay[tuple[str, Reading]], stage: FaultTestbed, copies: int) -> Pass:
    """Return a network that delays messages and delivers the due ones in random topic order."""

    def way(topic: str, reading: Reading) -> list[tuple[str, Reading]]:
        for _ in range(copies):
            lag.put((topic, reading), stage.now_s)
        return lag.due(stage.now_s)

    return way


def clock_jumps(bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Test jumps of the wall clock by up to an hour, one every five ticks.

    The readings pass through ROS messages, whose headers contain the wall clock. The test replaces
    the standard library's clock in this process, and no tested code. The commands must equal those
    of a run without jumps to the bit.
    """
    rng = np.random.default_rng(first)
    jumps = rng.choice([-3600.0, 3600.0, *rng.uniform(-3600.0, 3600.0, 8)], number)
    runs = [_jumping(bundle, shifts) for shifts in (np.zeros(number), np.cumsum(jumps))]
    apart = np.abs(runs[0] - runs[1]).max(axis=1)
    violations = int(np.count_nonzero(apart[1:].reshape(number, -1).max(axis=1)))
    return TrialCounts(number, violations, {"commands apart by": float(apart.max())})


def _jumping(bundle: Bundle, shifts: np.ndarray) -> np.ndarray:
    """Return the commands (1 + 5·shifts, n)."""
    stage, dialect = FaultTestbed(bundle), Codec("jazzy").dialect

    def way(topic: str, reading: Reading) -> list[tuple[str, Reading]]:
        message = to_message(KINDS[topic], reading, dialect)
        return [(topic, to_reading(KINDS[topic], message, stage.now_s))]

    stage.begin()
    stage.sent = stage.sent[-1:]
    for shift_s in shifts:
        with wall_clock(float(shift_s)):
            for _ in range(5):
                stage.tick(way)
    return np.stack(stage.sent)


@contextmanager
def wall_clock(shift_s: float) -> Generator[None]:
    """Shift the standard library's wall clock within the block."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + shift_s
    time.time_ns = lambda: real_ns() + round(1e9 * shift_s)
    try:
        yield
    finally:
        time.time, time.time_ns = real, real_ns


def other_robot(bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Test contracts of another robot: they are refused before any connection."""
    accepted = 0
    for trial in range(first, first + number):
        rng, agreed = np.random.default_rng(trial), contract()
        act = agreed.act.model_dump()
        one, other = rng.choice(len(NAMES) - 1, 2, replace=False)
        names, low = list(act["names"]), np.array(act["low"])
        swapped = low.copy()
        swapped[[one, other]] = low[[other, one]]
        # Joints with equal limits can be swapped unnoticed, unless their names differ.
        names[one] += "_left" if rng.random() < 0.5 else ""
        names[one], names[other] = names[other], names[one]
        change = [
            {"names": (*act["names"][:-1], "hand")},
            {"names": tuple(names), "low": tuple(low - rng.uniform(0.01, 0.5))},
            {"low": tuple(np.degrees(low))},
            {"unit": "deg"},
            {"rate_hz": act["rate_hz"] * float(rng.choice([0.5, 2.0, 2.5]))},
            {"low": tuple(swapped - 1e-3)},
        ][trial % 6]
        wrong = agreed.model_copy(update={"act": agreed.act.model_copy(update=change)})
        try:
            build_runtime(
                validate_strict(SETTINGS, DeploySettings),
                wrong,
                lambda obs, plan: np.zeros(0, np.float32),
                time.monotonic,
            )
            accepted += 1
        except BundleError:
            continue
    return TrialCounts(number, accepted, {})


def other_order(bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Run ticks with joint states in random order, and the same ticks in fixed order.

    Values belong to their names, so the commands must be equal to the bit.
    """
    rng, runs = np.random.default_rng(first), list[np.ndarray]()
    for shuffled in (False, True):
        stage = FaultTestbed(bundle)

        def way(topic: str, reading: Reading, shuffled=shuffled) -> list[tuple[str, Reading]]:
            if topic != JOINTS or not shuffled:
                return [(topic, reading)]
            order = rng.permutation(len(NAMES))
            fields = {"position": reading.fields["position"][order]}
            return [(topic, Reading(fields, tuple(NAMES[i] for i in order), reading.stamp_s))]

        stage.begin()
        for _ in range(number):
            stage.tick(way)
        runs.append(np.stack(stage.sent))
    apart = np.abs(runs[0] - runs[1]).max(axis=1)
    return TrialCounts(
        number, int(np.count_nonzero(apart)), {"commands apart by": float(apart.max())}
    )


def emergency_stop(bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Test presses, half of them shorter than a period: only a reset lets the policy continue."""
    rng, stage = np.random.default_rng(first), FaultTestbed(bundle)
    violations, slowest = 0, 0
    for _ in range(number):
        stage.begin()
        for _ in range(int(rng.integers(5, 25))):
            stage.tick()
        stage.press(True)
        if rng.random() < 0.5:
            stage.press(False)
        bad, ticks = stage.tick().state is not State.FAULTED, 1
        for _ in range(20):
            stage.node.request("activate")
            bad = bad or stage.tick().state is not State.FAULTED
            moves = bool((stage.sent[-1] != stage.sent[-2]).any())
            ticks += moves and not stage.node.record.silent
        stage.press(False)
        violations += bad
        slowest = max(slowest, ticks)
    excess = stage.excess()
    worst = {"at rest after s": slowest * DT_S, "excess": excess}
    return TrialCounts(number, violations + (excess > TOLERANCE), worst)
