"""Faults of the policy process: killed, stopped, hanging; over DDS, beside its watchdog.

Every trial is a ``robo-rl deploy`` of its own. The robot is this process: it says where it was told
to be, and notes what it was told and when, on the machine's one monotonic clock. A trial in which a
core of the machine stood still around the fault says nothing of the watchdog: it is void, counted
as such, and made anew.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _fault_stage import (
    DT_S,
    JOINTS,
    NAMES,
    ROBOT,
    SETTINGS,
    WANTED,
    Array,
    contract,
    wandering_positions,
)
from _fault_table import TOLERANCE, TrialCounts
from _standstill import StallMonitor, watched

from robo_rl.bundle.bundle import Bundle
from robo_rl.config.models import to_yaml
from robo_rl_sim2real.control.commands.braking import Limits
from robo_rl_sim2real.control.commands.contract import command_spec
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.base import SENSOR, Qos
from robo_rl_sim2real.transport.dds.transport import Dds

PATIENCE_S = 120.0
WITHIN_S = 0.1
"""From the fault to the first command of the watchdog."""
ON_THE_WAY_S = 0.005
"""After which nothing that the policy sent before the fault is still to come."""
BEFORE = 6
"""Commands of the policy's that are looked at together with the watchdog's."""
DOMAIN = 200 + os.getpid() % 30
VOID = 20
"""So many void trials in a row, and this is no machine to judge by."""
AROUND_S = 0.5
"""Before the fault, and after the last command, the machine must not stand still."""


class WanderingRobot:
    """Goes where it is told, wandering where it wants to be; remembers commands."""

    def __init__(self) -> None:
        self.pos, self.sent = ROBOT.home_ctrl.copy(), list[tuple[float, Array]]()
        self.transport = Dds(Dds.Config(domain=DOMAIN), "robot")
        out = self.transport.create_publisher
        self._outs = out(JOINTS, MsgType.JOINT_STATES, SENSOR), out(WANTED, MsgType.ARRAY, SENSOR)
        topic = ROBOT.topics.command
        self.transport.subscribe(topic, MsgType.ARRAY, self._obey, Qos(depth=100))
        self._over, self._thread = threading.Event(), threading.Thread(target=self._say)
        self._thread.start()

    def close(self) -> None:
        """Leave."""
        self._over.set()
        self._thread.join()
        self.transport.close()

    def _obey(self, reading: Reading) -> None:
        self.pos = reading.fields["data"]
        self.sent.append((reading.stamp_s, self.pos))

    def _say(self) -> None:
        began_s = time.monotonic()
        while not self._over.wait(0.01):
            aim = wandering_positions(time.monotonic() - began_s, hz=0.5)
            self._outs[0].send(Reading({"position": self.pos}, NAMES, 0.0))
            self._outs[1].send(Reading({"data": aim}, (), 0.0))


def processes(fault: Callable[[int], None], bundle: Bundle, first: int, number: int) -> TrialCounts:
    """Trials of a fault, at a random moment of motion."""
    tally = TrialCounts(0, 0, {})
    with watched() as standstills:
        for trial in range(first, first + number):
            tally += _fair(bundle, fault, trial, standstills)
    return tally


def _fair(
    bundle: Bundle, fault: Callable[[int], None], trial: int, standstills: StallMonitor
) -> TrialCounts:
    """A trial on a machine that goes on, and the void ones before it."""
    void = TrialCounts(0, 0, {})
    for attempt in range(VOID):
        robot = WanderingRobot()
        try:
            tally, fault_s = _trial(bundle, robot, fault, np.random.default_rng([trial, attempt]))
        finally:
            robot.close()
        last_s = robot.sent[-1][0]
        if not standstills.between(fault_s - AROUND_S, last_s + AROUND_S):
            return tally + void
        void += tally.voided()
    raise SystemExit(f"the machine stood still in {VOID} trials in a row")


def killed(pid: int) -> None:
    """As a crash, or the kernel when memory is short."""
    os.kill(pid, signal.SIGKILL)


def stopped(pid: int) -> None:
    """As Ctrl-Z does, or a debugger."""
    os.kill(pid, signal.SIGSTOP)


def _trial(
    bundle: Bundle, robot: WanderingRobot, fault: Callable[[int], None], rng: np.random.Generator
) -> tuple[TrialCounts, float]:
    """What came of it, and when the fault was."""
    with tempfile.TemporaryDirectory() as folder:
        policy = deployed(bundle, Path(folder))
        try:
            _wait_for_motion(robot, policy, rng)
            fault_s = time.monotonic()
            fault(policy.pid)
            _, said = policy.communicate(timeout=PATIENCE_S)  # the watchdog has ended as well then
        finally:
            policy.kill()
            policy.wait()
    told = len(robot.sent)
    time.sleep(4 * DT_S)
    ended = policy.returncode == -signal.SIGKILL and "robo-rl watchdog" in said
    limits = command_spec(bundle.manifest.contract, ROBOT).limits
    fine = ended and len(robot.sent) == told
    return _judged(robot, fault_s, limits, fine=fine), fault_s


def deployed(
    bundle: Bundle, folder: Path, *more: str, said: int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """``robo-rl deploy`` of it, with settings in that folder and more words behind.

    ``said`` is where its stderr goes: a pipe that nobody empties stops it in the end.
    """
    lifecycle = {**SETTINGS["lifecycle"], "final_hold_s": 0.2}
    settings = folder / "settings.yaml"
    settings.write_text(to_yaml({**SETTINGS, "lifecycle": lifecycle}))
    words = ["deploy", str(bundle.path), "--settings", str(settings), "--activate"]
    return subprocess.Popen(
        [sys.executable, "-m", "robo_rl", *words, f"transport.domain={DOMAIN}", *more],
        stdout=subprocess.DEVNULL,
        stderr=said,
        text=True,
    )


def _wait_for_motion(
    robot: WanderingRobot, policy: subprocess.Popen[str], rng: np.random.Generator
) -> None:
    until = time.monotonic() + PATIENCE_S
    while len(robot.sent) < 30 + rng.integers(10):
        time.sleep(0.005)
        if policy.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"the policy process did not move the robot: {policy.communicate()}")
    time.sleep(DT_S * rng.random())


def _judged(robot: WanderingRobot, fault_s: float, limits: Limits, *, fine: bool) -> TrialCounts:
    """What was commanded after a fault."""
    times = np.array([at_s for at_s, _ in robot.sent])
    path = np.stack([pos for _, pos in robot.sent])
    after = int(np.searchsorted(times, fault_s))
    same = (path[1:] == path[:-1]).all(axis=1)
    first = _first(times, same, fault_s)
    moving = [i for i in range(after, len(path)) if i > 0 and not same[i - 1]]
    first_s = times[first] - fault_s if first < len(path) else PATIENCE_S
    rest_s = times[moving[-1]] - fault_s if moving else 0.0
    over = _hand_over(times, path, first) if first < len(path) else 0.0
    speed = np.abs(path[after - 1] - path[after - 2]) / DT_S
    braking_s = float((speed / limits.acceleration).max()) + 3 * DT_S
    late = first_s > WITHIN_S or rest_s > WITHIN_S + braking_s
    broken = not fine or late or over > TOLERANCE
    worst = {"first command after s": first_s, "at rest after s": rest_s, "excess": over}
    return TrialCounts(1, int(broken), worst)


def _first(times: Array, same: Array, fault_s: float) -> int:
    """Which command is the watchdog's first.

    It repeats the policy's last one; or that had been worked out and was not sent, and is new then.
    So it is the first that equals the one before, or that came when all that the policy had sent
    must have arrived.
    """
    after = max(int(np.searchsorted(times, fault_s)), 1)
    arrived = int(np.searchsorted(times, fault_s + ON_THE_WAY_S))
    repeats = [i for i in range(after, len(times)) if same[i - 1]]
    return min([max(arrived, 1), *repeats[:1]])


def _hand_over(times: Array, path: Array, first: int) -> float:
    """By which share the commands on either side of the watchdog's first break a limit together.

    If that first one repeats the one before it, it is left out. Where a period was missed it goes
    on from standstill, as the runtime does, so nothing may move any more: 0 if so, else infinity.
    It counts one as missed from two periods on; what is known here is when commands arrived, so a
    fifth of a period is allowed for their way.
    """
    limits, before = command_spec(contract(), ROBOT).limits, slice(first - BEFORE, first)
    if (path[first:] == path[first]).all():
        return 0.0
    going_on = first + int((path[first] == path[first - 1]).all())
    if times[going_on] - times[first - 1] > 2.2 * DT_S:
        return np.inf
    if (np.diff(times[before]) > 1.5 * DT_S).any():
        return 0.0
    pos, worst = np.concatenate([path[before], path[going_on:]]), 0.0
    for bound in (limits.velocity, limits.acceleration, limits.jerk):
        pos = np.diff(pos, axis=0) / DT_S
        worst = max(worst, float((np.abs(pos) / bound).max()) - 1.0)
    return worst
