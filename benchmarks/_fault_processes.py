"""Faults of the policy process over DDS, with its watchdog: killed, stopped, hanging.

Every trial runs its own ``robo-rl deploy``. This process is the robot: it publishes its commanded
position and records commands with their times, on the machine's monotonic clock. If a core of the
machine stalls around the fault, the trial says nothing about the watchdog. Such a trial is void,
counted as void, and repeated.
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
from robo_rl_sim2real.core.clock import boot_s
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.base import SENSOR, Qos
from robo_rl_sim2real.transport.dds.transport import Dds

PATIENCE_S = 120.0
WITHIN_S = 0.1
"""Time limit from the fault to the watchdog's first command."""
ON_THE_WAY_S = 0.005
"""Time after which all commands that the policy sent before the fault have arrived."""
BEFORE = 6
"""Number of the policy's commands that are evaluated together with the watchdog's."""
DOMAIN = 200 + os.getpid() % 30
VOID = 20
"""Number of consecutive void trials after which the benchmark stops."""
AROUND_S = 0.5
"""Time before the fault and after the last command in which the machine must not stall."""


class WanderingRobot:
    """A robot that follows commands, publishes wandering targets, and records commands."""

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
        """Stop publishing and close the transport."""
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
    """Run trials of a fault at a random moment of motion."""
    tally = TrialCounts(0, 0, {})
    with watched() as standstills:
        for trial in range(first, first + number):
            tally += _fair(bundle, fault, trial, standstills)
    return tally


def _fair(
    bundle: Bundle, fault: Callable[[int], None], trial: int, standstills: StallMonitor
) -> TrialCounts:
    """Return a trial without machine stalls, and the void trials before it."""
    void = TrialCounts(0, 0, {})
    for attempt in range(VOID):
        robot = WanderingRobot()
        try:
            tally, fault_s = _trial(bundle, robot, fault, np.random.default_rng([trial, attempt]))
        finally:
            robot.close()
        last_s = robot.sent[-1][0]
        ahead_s = boot_s() - time.monotonic()  # the clock of stalls, of a suspended computer
        begin_s, end_s = (ahead_s + at for at in (fault_s - AROUND_S, last_s + AROUND_S))
        if not standstills.between(begin_s, end_s):
            return tally + void
        void += tally.voided()
    raise SystemExit(f"the machine stood still in {VOID} trials in a row")


def killed(pid: int) -> None:
    """Kill the process, as a crash or the kernel's out-of-memory killer does."""
    os.kill(pid, signal.SIGKILL)


def stopped(pid: int) -> None:
    """Stop the process, as Ctrl-Z or a debugger does."""
    os.kill(pid, signal.SIGSTOP)


def _trial(
    bundle: Bundle, robot: WanderingRobot, fault: Callable[[int], None], rng: np.random.Generator
) -> tuple[TrialCounts, float]:
    """Return the trial's counts and the time of the fault."""
    with tempfile.TemporaryDirectory() as folder:
        policy = deployed(bundle, Path(folder))
        try:
            _wait_for_motion(robot, policy, rng)
            fault_s = time.monotonic()
            fault(policy.pid)
            _, said = policy.communicate(timeout=PATIENCE_S)  # the watchdog has ended too
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
    """Start ``robo-rl deploy`` with settings in that folder and additional arguments.

    ``said`` is the destination of its stderr. The process blocks on a pipe that nobody reads.
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
    """Return the counts for the commands after a fault."""
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
    """Return the index of the watchdog's first command.

    The watchdog repeats the policy's last command. If the policy computed that command but did not
    send it, it is new. The index is therefore that of the first repeated command, or of the first
    command after all of the policy's commands must have arrived.
    """
    after = max(int(np.searchsorted(times, fault_s)), 1)
    arrived = int(np.searchsorted(times, fault_s + ON_THE_WAY_S))
    repeats = [i for i in range(after, len(times)) if same[i - 1]]
    return min([max(arrived, 1), *repeats[:1]])


def _hand_over(times: Array, path: Array, first: int) -> float:
    """Return the largest excess of a limit across the hand-over to the watchdog, as a share.

    A first command that repeats the previous one is left out. After a missed period the watchdog
    continues from standstill, like the runtime. Then nothing may move: 0 if so, else infinity. The
    watchdog counts a period as missed from two periods on. Only arrival times are known here, so a
    fifth of a period is allowed for transmission.
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
