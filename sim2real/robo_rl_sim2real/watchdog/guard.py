"""The policy process's side: it starts its watchdog, tells it of every command, relies on it."""

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
from robo_rl_sim2real.watchdog.assessment import ProcessState, SilenceTimer
from robo_rl_sim2real.watchdog.heartbeat import HeartbeatMemory, Phase
from robo_rl_sim2real.watchdog.job import WatchdogJob
from robo_rl_sim2real.watchdog.process import WITHOUT, ProcessHandle, require_pidfd

_PATIENCE_S = 20.0
"""For it to be ready: a second and a half on an idle machine."""


class MotionGuard(Protocol):
    """Who stops the robot if this process cannot any more.

    Args:
        writers: How many publishers it has on the topic of commands.
    """

    writers: int

    def report(self, motion: Motion, *, sending: bool) -> None:
        """That this is commanded next, or nothing is; every tick, before it is sent."""
        ...

    def check(self) -> None:
        """Be sure that the robot may move.

        Raises:
            WatchdogLostError: It may not: nobody would stop it.
        """
        ...


class WatchdogLostError(DeviceError):
    """Nobody would stop the robot if this process could not."""


class Unguarded:
    """Nobody: for simulated robots, and for those who want it so."""

    writers = 0

    def report(self, motion: Motion, *, sending: bool) -> None:
        """Nobody hears it."""

    def check(self) -> None:
        """Always."""


class Watchdog:
    """A process that watches this one.

    It has a session of its own, so that what ends this process by way of its terminal or its group
    leaves it alone. Linux only.

    Args:
        cfg: See Config.
        orders: What it is told.
        now_s: The machine's monotonic clock.

    Raises:
        DeviceError: It does not start.
    """

    writers = 1

    class Config(ConfigModel):
        """Whether there is one, and its patience.

        Args:
            enabled: Whether the robot moves only under its watch.
            command_timeout_s: How late a command may be; later, what obeys velocities is told zero until the
                next one. What obeys positions stands at the last command anyway.
            hang_timeout_s: How late a command of a process that runs may be; later, that process counts as
                hanging and is ended.
            watchdog_timeout_s: For how long nothing may be heard of the watchdog itself while it runs.
        """

        enabled: bool = True
        command_timeout_s: float = Field(default=0.05, gt=0.0)
        hang_timeout_s: float = Field(default=3.0, gt=0.0)
        watchdog_timeout_s: float = Field(default=1.0, gt=0.0)

    def __init__(
        self, cfg: Config, orders: WatchdogJob, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        require_pidfd()
        self.cfg, self._now_s, joints = cfg, now_s, len(orders.limits["low"])
        self._still = Motion(*np.zeros((3, joints)))
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
        """Its process."""
        return self._process.pid

    def report(self, motion: Motion, *, sending: bool) -> None:
        """See ``Guard``."""
        phase = Phase.SENDING if sending else Phase.SILENT
        self.block.policy.write(self._now_s(), phase, motion)

    def check(self) -> None:
        """See ``Guard``. One that fell silent is ended, lest it comes back and takes over."""
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
        """It is not needed any more: the robot is not commanded, and will not be."""
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
    with contextlib.suppress(BrokenPipeError):  # one that ended already is noticed soon
        process.stdin.write(orders.model_dump_json().encode())
        process.stdin.close()
    return process
