"""The policy process's side of the watchdog: starts it, reports commands, and checks it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np
from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DeviceError
from robo_rl_sim2real.control.commands.braking import Motion
from robo_rl_sim2real.core.clock import boot_s
from robo_rl_sim2real.watchdog.assessment import ProcessState, SilenceTimer
from robo_rl_sim2real.watchdog.heartbeat import HeartbeatMemory, Phase
from robo_rl_sim2real.watchdog.job import WatchdogJob
from robo_rl_sim2real.watchdog.process import WITHOUT, ProcessHandle, require_pidfd

_PATIENCE_S = 20.0
"""Time limit for its start, which takes 1.5 s on an idle machine."""


class MotionGuard(Protocol):
    """Stops the robot if this process no longer can.

    Args:
        writers: Number of its publishers on a topic of commands.
    """

    writers: int

    def report(self, motion: Motion, *, sending: bool) -> None:
        """Report the next command, or that there is none; every tick, before it is sent."""
        ...

    def has_stood(self) -> bool:
        """Return whether zero velocities may have been commanded since the last report."""
        ...

    def check(self) -> None:
        """Check that the robot may move.

        Raises:
            WatchdogLostError: It may not, because the guard is lost.
        """
        ...


class WatchdogLostError(DeviceError):
    """The guard is lost and cannot stop the robot."""


class Unguarded:
    """No guard, for simulated robots or by configuration."""

    writers = 0

    def report(self, motion: Motion, *, sending: bool) -> None:
        """Do nothing, because there is no guard."""

    def has_stood(self) -> bool:
        """Return False, because nobody else commands."""
        return False

    def check(self) -> None:
        """Allow all motion."""


class Watchdog:
    """A process that watches this one.

    It has a session of its own, so that signals to this process's terminal or process group do not
    reach it. Linux only.

    Args:
        cfg: See Config.
        orders: Job description.
        now_s: Monotonic clock, that of the watchdog's process.

    Raises:
        DeviceError: It does not start.
    """

    writers = 1

    class Config(ConfigModel):
        """Whether there is a watchdog, and its time limits.

        Args:
            enabled: Whether the robot moves only with a live watchdog.
            command_timeout_s: Largest delay of a command. Beyond it, zero velocities are commanded
                until the next command. Position controllers stay at the last command anyway.
            hang_timeout_s: Largest delay of a command of a running process. Beyond it, the process
                counts as hanging and is killed.
            watchdog_timeout_s: Longest silence of the watchdog itself while it runs.
        """

        enabled: bool = True
        command_timeout_s: float = Field(default=0.05, gt=0.0)
        hang_timeout_s: float = Field(default=3.0, gt=0.0)
        watchdog_timeout_s: float = Field(default=1.0, gt=0.0)

    def __init__(
        self, cfg: Config, orders: WatchdogJob, now_s: Callable[[], float] = boot_s
    ) -> None:
        require_pidfd()
        self.cfg, self._now_s, joints = cfg, now_s, len(orders.limits["low"])
        self._still = Motion(*np.zeros((3, joints)))
        self._late_s, self._sent_s = orders.silence_limits.late_s, float("inf")
        file = os.memfd_create("watchdog")
        try:
            os.ftruncate(file, HeartbeatMemory.size(joints))
            self.block = HeartbeatMemory.map_file(file, joints)
            self._process = _start(orders, file)
        finally:
            os.close(file)
        self._life, self._silence = ProcessHandle(self._process.pid), SilenceTimer()
        self._wait()

    @property
    def pid(self) -> int:
        """Process id of the watchdog."""
        return self._process.pid

    @property
    def is_armed(self) -> bool:
        """Whether the last report was of a command, so that the robot may be moving."""
        return self._sent_s < float("inf")

    def report(self, motion: Motion, *, sending: bool) -> None:
        """See ``MotionGuard``."""
        phase, now_s = Phase.SENDING if sending else Phase.SILENT, self._now_s()
        self.block.policy.write(now_s, phase, motion)
        self._sent_s = now_s if sending else float("inf")

    def has_stood(self) -> bool:
        """See ``MotionGuard``: the watchdog does so while commands are late."""
        return self._now_s() - self._sent_s > self._late_s

    def check(self) -> None:
        """See ``MotionGuard``.

        A silent watchdog is killed, so that it cannot resume and take control.
        """
        if self._process.poll() is not None:
            raise WatchdogLostError(
                "the watchdog ended", found=f"status {self._process.returncode}"
            )
        if self._life.state() is ProcessState.STOPPED:
            self._process.kill()
            raise WatchdogLostError("the watchdog was stopped by a signal")
        beat = self.block.watchdog.read()
        silent_s = self._silence.update(0 if beat is None else beat.number, self._now_s())
        if silent_s > self.cfg.watchdog_timeout_s:
            self._process.kill()
            raise WatchdogLostError(
                "the watchdog fell silent",
                expected=f"a beat every {self.cfg.watchdog_timeout_s:g} s",
                found=f"{silent_s:.2f} s without one",
            )

    def close(self) -> None:
        """End the watchdog; the robot receives no further commands."""
        self.block.policy.write(self._now_s(), Phase.ENDED, self._still)
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait(self) -> None:
        until = time.monotonic() + _PATIENCE_S
        while self.block.watchdog.read() is None:
            ended = self._process.poll() is not None
            if ended or time.monotonic() > until:
                self._process.kill()
                found = (
                    f"status {self._process.wait()}"
                    if ended
                    else f"nothing of it in {_PATIENCE_S:g} s"
                )
                raise DeviceError("the watchdog does not start", found=found, hint=WITHOUT)
            time.sleep(0.005)


def _start(orders: WatchdogJob, file: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "robo_rl_sim2real.watchdog", str(file)],
        stdin=subprocess.PIPE,
        pass_fds=[file],
        start_new_session=True,
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # ``_wait`` reports an early exit
        process.stdin.write(orders.model_dump_json().encode())
        process.stdin.close()
    return process
