"""One worker of a ``RemoteEnv``: its connection, its world's description, and shared memory.

Shapes: B envs of this worker. Answers repeat the number of their command.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from robo_rl.core.errors import ConfigError, DeviceError, PluginError, RoboRlError, SpecError
from robo_rl.env.remote.server_process import RemoteServer
from robo_rl.env.serve.connection import PROTOCOL, RequestError
from robo_rl.env.serve.shared_arrays import Arrays, shared_fields
from robo_rl.env.workers.awake_watch import AwakeWatch
from robo_rl.env.workers.pool import WorkerLoss, WorkerLostError
from robo_rl.env.workers.shared_memory import share_arrays

_HELLO_S = 10.0
_ERRORS = {"plugin": PluginError, "spec": SpecError, "config": ConfigError, "device": DeviceError}


@dataclass(frozen=True)
class WorkerTimeouts:
    """Time limits after which a worker counts as lost.

    Args:
        start_s: Time to make its world.
        step_s: Time for a command.
        heartbeat_timeout_s: Time between two heartbeats during a command.
    """

    start_s: float
    step_s: float
    heartbeat_timeout_s: float


class RemoteWorker:
    """A world of B envs in another process; a ``Worker``.

    Args:
        host: The server.
        request: ``adapter`` and ``kwargs``, ``num_envs`` (B), ``index`` of the first env among all.
        patience: Time limits.

    Attributes:
        arrays: The arrays of ``shared_fields``, in shared memory.
        world_s: Seconds that its world took for the last command.

    Raises:
        PluginError: It does not answer, or has another protocol version.
    """

    def __init__(
        self, host: RemoteServer, request: Mapping[str, Any], patience: WorkerTimeouts
    ) -> None:
        self._host, self._request, self._patience = host, request, patience
        self._where = f"remote env '{request['adapter']}'"
        self.line = host.connect()
        self.pid = 0
        self.arrays: Arrays = {}
        self._lost: WorkerLoss | None = None
        self.world_s = 0.0
        self.world: dict[str, Any] = {}
        try:
            self._greet()
            self.send("make", 0, protocol=PROTOCOL, **request)
        except BaseException:
            self.line.close()
            raise

    def join(self, watch: AwakeWatch) -> None:
        """Wait until the world is made; see ``Worker``.

        Raises:
            WorkerLostError: The worker died or takes too long.
            PluginError: The worker cannot make the world.
            SpecError: The world's description is invalid.
            DeviceError: The simulator is not installed there, or there is too little memory.
        """
        try:
            self.world = self._join(watch)
        except BaseException:
            self.line.close()
            raise

    def send(self, kind: str, seq: int, **arguments: Any) -> None:
        """Send a command; see ``Worker``.

        Raises:
            RoboRlError: The message is too long.
        """
        try:
            with suppress(OSError):
                self.line.send({"kind": kind, "seq": seq, **arguments})
        except RequestError as refusal:
            raise self._blame(refusal.message) from None

    def receive(self, seq: int, watch: AwakeWatch) -> RoboRlError | WorkerLoss | None:
        """Wait for the answer to a command; a lost worker stays lost; see ``Worker``."""
        if self._lost is not None:
            return self._lost
        patience = self._patience
        answer = self._await(seq, patience.step_s, patience.heartbeat_timeout_s, watch)
        if isinstance(answer, WorkerLoss):
            self._lost = answer
            self.line.close()
            return answer
        if answer["kind"] == "error":
            return self._blame(answer)
        self.world_s = _number(answer.get("world_s"))
        return None

    def output_tail(self) -> str:
        """Return the end of its output."""
        return self._host.output_tail(self.pid)

    def close(self) -> None:
        """Close its connection, which makes it exit."""
        self.line.close()
        self.arrays = {}

    def terminate(self, deadline: float) -> None:
        """Do nothing: the server kills the worker if it does not exit soon."""

    def _greet(self) -> None:
        hello = self._expect("hello", _HELLO_S, AwakeWatch())
        if hello.get("protocol") != PROTOCOL:
            raise PluginError(
                "protocol mismatch",
                where=self._where,
                expected=PROTOCOL,
                found=hello.get("protocol"),
                hint="serve it with this robo-rl's own files (robo-rl serve-env)",
            )
        self.pid = int(_number(hello.get("pid")))

    def _join(self, watch: AwakeWatch) -> dict[str, Any]:
        world = self._expect("made", self._patience.start_s, watch).get("world")
        try:
            shapes = shared_fields(cast("dict[str, Any]", world), self._request["num_envs"])
        except RequestError as refusal:
            raise self._blame(refusal.message) from None
        self.arrays = share_arrays(shapes, lambda fd: self.line.send({"kind": "memory"}, fd))
        self._expect("done", self._patience.start_s, AwakeWatch())
        return cast("dict[str, Any]", world)

    def _expect(self, kind: str, timeout_s: float, watch: AwakeWatch) -> dict[str, Any]:
        """Return the next answer of a kind; no heartbeat is required while a world starts."""
        answer = self._await(0, timeout_s, timeout_s, watch)
        if isinstance(answer, WorkerLoss):
            words = self.output_tail()
            found = f"{answer.reason}: {words}" if words else answer.reason
            problem = "a worker did not start"
            raise WorkerLostError(problem, reason=found, where=self._where, found=found)
        if answer["kind"] == "error":
            raise self._blame(answer)
        if answer["kind"] != kind:
            found = answer["kind"]
            raise PluginError("unexpected answer", where=self._where, expected=kind, found=found)
        return answer

    def _await(
        self, seq: int, timeout_s: float, heartbeat_timeout_s: float, watch: AwakeWatch
    ) -> dict[str, Any] | WorkerLoss:
        heard_s = 0.0
        while True:
            until_s = min(timeout_s, heard_s + heartbeat_timeout_s)
            wait_s = min(heartbeat_timeout_s / 4, until_s - watch.elapsed_s)
            if not watch.wait(self.line.poll, wait_s):
                if watch.elapsed_s >= timeout_s:
                    return WorkerLoss(f"no answer within {timeout_s:g} s")
                if watch.elapsed_s >= until_s:
                    return WorkerLoss(f"no sign of life for {heartbeat_timeout_s:g} s")
                continue
            try:
                message, fd = self.line.receive()
            except (EOFError, OSError, RequestError) as error:
                return WorkerLoss(str(error) or "it is gone")
            if fd is not None:
                os.close(fd)
            heard_s = watch.elapsed_s
            if message["kind"] == "died":
                return WorkerLoss(str(message.get("reason")))
            if message["kind"] != "beat" and message.get("seq", seq) == seq:
                return message

    def _blame(self, answer: Mapping[str, Any]) -> RoboRlError:
        """Return the other side's error as a typed one, with its traceback as a note."""
        details = {name: answer.get(name) for name in ("expected", "found", "hint")}
        if answer.get("code") == "device":
            details["hint"] = "robo-rl env create makes an interpreter that has it"
        error = _ERRORS.get(str(answer.get("code")), PluginError)(
            str(answer.get("problem")), where=self._where, **details
        )
        error.add_note(str(answer.get("trace", "")))
        return error


def _number(said: Any) -> float:
    """Return the received value as a number, 0 if it is none."""
    return float(said) if isinstance(said, int | float) and math.isfinite(said) else 0.0
