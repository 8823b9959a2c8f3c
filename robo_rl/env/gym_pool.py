"""The worker processes of ``GymEnv``: started, spoken to, and replaced when they die or hang.

One message a worker and command; arrays are in a ``Segment``. No late answer is ever taken for a
new one: every message carries a sequence number, a lost worker is dead before its successor starts,
and the successor gets a new segment, which the dead one cannot write to. Shapes as in
``gym_shared``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from robo_rl.env.gym_channel import Channel, channel_pair
from robo_rl.env.gym_shared import EnvRequest, Interface, Segment, SegmentKey
from robo_rl.errors import PluginError, RoboRlError

_MAX_DEATHS_IN_A_ROW = 3
_CLOSE_GRACE_S = 2.0
_MESSAGE_S = 10.0
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from robo_rl.env.gym_worker import main; main(int(sys.argv[1]))"
)


@dataclass
class Worker:
    """One process, our end of its channel, and the segment that it uses."""

    process: subprocess.Popen[bytes]
    channel: Channel
    segment: Segment | None = None


class _Since(NamedTuple):
    """When workers were asked, and how far each was by then."""

    at: float
    progress: dict[int, int]


@dataclass(frozen=True)
class Lost:
    """In place of an answer: the worker died or hung, and why we think so."""

    reason: str


class WorkerPool:
    """num_envs envs spread over num_workers processes.

    Args:
        request: Which env.
        num_envs: B.
        num_workers: W, at most B.
        step_timeout_s: A worker that shows no progress, not one env step or reset, for this long is
            hung.
        start_timeout_s: A worker that has not made its envs by then is hung.

    Raises:
        PluginError: The env cannot be made; SpecError, ConfigError: it cannot be used.
    """

    def __init__(
        self,
        request: EnvRequest,
        num_envs: int,
        num_workers: int,
        *,
        step_timeout_s: float,
        start_timeout_s: float,
    ) -> None:
        self._request, self._num_envs = request, num_envs
        self._step_timeout_s, self._start_timeout_s = step_timeout_s, start_timeout_s
        self._seq = 0
        self._deaths = [0] * num_workers
        self._workers: dict[int, Worker] = {}
        self._segments: list[Segment] = []  # one at most
        self._interfaces: list[Interface] = []  # one, once a worker has started
        self._close = weakref.finalize(self, _shut_down, os.getpid(), self._workers, self._segments)
        self.ids = [
            range(num_envs * w // num_workers, num_envs * (w + 1) // num_workers)
            for w in range(num_workers)
        ]
        for loss in self._start(range(num_workers)).values():
            self._fail(f"a worker did not start: {loss.reason}")

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called, by the user or after a failure that ended the pool."""
        return not self._close.alive

    @property
    def interface(self) -> Interface:
        """What every env of the pool turned out to be."""
        return self._interfaces[0]

    @property
    def segment(self) -> Segment:
        """The arrays of the last command."""
        return self._segments[0]

    @property
    def pids(self) -> list[int]:
        """Process id of each worker."""
        return [self._workers[w].process.pid or 0 for w in range(len(self.ids))]

    def reserve(self, steps: int) -> Segment:
        """The segment, with room for ``steps`` steps."""
        if not self._segments or self.segment.key.capacity < steps:
            self._renew_segment(steps)
        return self.segment

    def exchange(self, command: str, arguments: Mapping[int, Any]) -> dict[int, Lost]:
        """Send each worker its argument and wait for all of them.

        Args:
            command: "reset" or "rollout".
            arguments: Worker → argument.

        Returns:
            The workers that died or hung, which ``replace`` must replace; their arrays hold nothing
            of use.

        Raises:
            PluginError: An env raised; the worker lives on and its envs need a reset.
            SpecError: An env broke its own spaces.
        """
        self._seq += 1
        since = self._now(arguments)
        for worker, argument in arguments.items():
            self._send(self._workers[worker], command, argument)
        limit = self._step_timeout_s
        answers = {w: self._await(w, limit, self._seq, since) for w in arguments}
        for worker, answer in answers.items():
            if isinstance(answer, RoboRlError):
                raise answer
            if not isinstance(answer, Lost) and command == "rollout":
                self._deaths[worker] = 0  # not by a reset, which follows each death
        return {w: answer for w, answer in answers.items() if isinstance(answer, Lost)}

    def replace(self, lost: Mapping[int, Lost]) -> None:
        """Kill what is left of the lost workers and start their envs anew; they need a reset.

        Raises:
            PluginError: A worker was lost too often in a row; the pool is closed.
        """
        pending = dict(lost)
        while pending:
            for worker, loss in pending.items():
                self._count_death(worker, loss)
            for worker in pending:
                _kill(self._workers.pop(worker))
            self._renew_segment(self.segment.key.capacity)
            pending = self._start(list(pending))

    def close(self) -> None:
        """End the processes and free the memory."""
        self._close()

    def _send(self, worker: Worker, command: str, argument: Any) -> None:
        segment = self.segment
        fd = None if worker.segment is segment else segment.fd
        with suppress(OSError):  # a dead worker is noticed when its answer is awaited
            worker.channel.send((self._seq, command, argument, segment.key), fd)
            worker.segment = segment

    def _count_death(self, worker: int, loss: Lost) -> None:
        self._deaths[worker] += 1
        if self._deaths[worker] > _MAX_DEATHS_IN_A_ROW:
            times = self._deaths[worker]
            self._fail(
                f"the worker of envs {list(self.ids[worker])} was lost {times} times in a row: "
                f"{loss.reason}",
                hint="run the env alone to see why; step_timeout_s sets how long it may hang",
            )

    def _fail(self, problem: str, hint: str | None = None) -> NoReturn:
        self.close()
        raise PluginError(problem, where=f"Gymnasium env '{self._request.id}'", hint=hint)

    def _start(self, workers: Sequence[int]) -> dict[int, Lost]:
        """Start processes, learn their envs' interface, and say which were lost already."""
        for w in workers:
            self._workers[w] = _spawn(self._request, w, self.ids[w])
        since, limit = self._now(workers), self._start_timeout_s
        answers = {w: self._await(w, limit, 0, since) for w in workers}
        lost = {w: answer for w, answer in answers.items() if isinstance(answer, Lost)}
        for worker in answers.keys() - lost.keys():
            self._learn(answers[worker])
        return lost

    def _learn(self, answer: Interface | RoboRlError) -> None:
        if isinstance(answer, RoboRlError):
            self.close()
            raise answer
        self._interfaces = self._interfaces or [answer]
        if answer != self.interface:
            self._fail("envs of the same arguments differ in their spaces or limits")

    def _await(self, worker: int, timeout_s: float, seq: int, since: _Since) -> Any:
        """The worker's answer to message seq, or Lost; progress extends the time."""
        channel = self._workers[worker].channel
        seen, deadline = since.progress[worker], since.at + timeout_s
        while True:
            try:
                if channel.poll(timeout_s / 4):
                    (answered, answer), _ = channel.receive()
                    if answered == seq:
                        return answer
            except (EOFError, OSError):
                return Lost(_fate(self._workers[worker].process))
            progress = self._progress(worker)
            if progress != seen:
                seen, deadline = progress, time.monotonic() + timeout_s
            elif time.monotonic() > deadline:
                return Lost(f"no progress for {timeout_s:g} s")

    def _now(self, workers: Iterable[int]) -> _Since:
        return _Since(time.monotonic(), {w: self._progress(w) for w in workers})

    def _progress(self, worker: int) -> int:
        return int(self.segment.arrays["progress"][worker]) if self._segments else 0

    def _renew_segment(self, capacity: int) -> None:
        key = SegmentKey(self._num_envs, len(self.ids), capacity)
        fresh = Segment(self.interface, key)
        while self._segments:
            self._segments.pop().close()
        self._segments.append(fresh)


def _spawn(request: EnvRequest, worker: int, ids: Sequence[int]) -> Worker:
    """A fresh interpreter with our import path: nothing of our state, our ``__main__`` included."""
    channel, theirs = channel_pair(_MESSAGE_S)
    with theirs:
        command = [sys.executable, "-c", _BOOT, str(theirs.fileno()), json.dumps(sys.path)]
        process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, close_fds=True
        )
    with suppress(OSError):
        channel.send((request, worker, ids))
    return Worker(process, channel)


def _fate(process: subprocess.Popen[bytes]) -> str:
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1.0)
    code = process.returncode
    if code is None:
        return "it closed its channel"
    return (
        f"it exited with {code}" if code >= 0 else f"it was killed by {signal.Signals(-code).name}"
    )


def _kill(worker: Worker) -> None:
    """SIGKILL, which also ends a stopped process, and wait until it is gone."""
    worker.process.kill()
    worker.channel.close()
    with suppress(subprocess.TimeoutExpired):  # one that hangs in the kernel
        worker.process.wait(timeout=_CLOSE_GRACE_S)


def _shut_down(owner: int, workers: dict[int, Worker], segments: list[Segment]) -> None:
    if os.getpid() != owner:
        return  # a forked child has no business with our workers
    for worker in workers.values():
        worker.channel.close()  # which tells it to end
    deadline = time.monotonic() + _CLOSE_GRACE_S
    for worker in workers.values():
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(timeout=max(0.0, deadline - time.monotonic()))
        _kill(worker)
    workers.clear()
    while segments:
        segments.pop().close()
