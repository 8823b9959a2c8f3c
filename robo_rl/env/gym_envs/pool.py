"""The workers of ``GymEnv``: processes of the same interpreter, with pickled messages.

Shapes: B envs of all workers, T steps of an open-loop sequence, A act_dim.
"""

from __future__ import annotations

import socket
import subprocess
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from robo_rl.core.errors import PluginError, RoboRlError
from robo_rl.env.gym_envs.steps import copy_block
from robo_rl.env.rendering.offscreen import opengl_environment, working_opengl
from robo_rl.env.serve.server import exit_description
from robo_rl.env.serve.shared_arrays import Arrays
from robo_rl.env.workers.awake_watch import AwakeWatch
from robo_rl.env.workers.channel import PickleConnection
from robo_rl.env.workers.child_interpreter import end_interpreter, start_interpreter
from robo_rl.env.workers.pool import WorkerLoss, WorkerLostError, WorkerPool
from robo_rl.env.workers.shared_memory import EnvInterface, EnvRequest, share_arrays, shared_fields

if TYPE_CHECKING:
    from robo_rl.env.gym_envs.steps import Block


class GymWorker:
    """One process, the parent's end of its channel, and the shared memory; a ``Worker``.

    Args:
        request: The env to make.
        start_timeout_s: A worker that has not made its envs after this long counts as hung.
        step_timeout_s: A worker without a finished env step or reset for this long counts as
            hung.
        ids: Indices of its envs.
    """

    def __init__(
        self, request: EnvRequest, start_timeout_s: float, step_timeout_s: float, ids: range
    ) -> None:
        self._where, self._num_envs, self._room = _where(request), len(ids), 0
        self._start_timeout_s, self._step_timeout_s = start_timeout_s, step_timeout_s
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._channel = PickleConnection(ours)
        with theirs:
            self._process = start_interpreter(
                "robo_rl.env.gym_envs.worker", theirs.fileno(), env=_environment(request)
            )
        self.pid = self._process.pid
        self.arrays: Arrays = {}
        self._progress_then = 0
        with suppress(OSError):
            self._channel.send((request, ids))

    def join(self, watch: AwakeWatch) -> None:
        """Receive the interface of its envs; see ``Worker``."""
        answer = self._await(0, self._start_timeout_s, watch)
        if isinstance(answer, WorkerLoss):
            problem = f"a worker did not start: {answer.reason}"
            raise WorkerLostError(problem, where=self._where, reason=answer.reason)
        if isinstance(answer, RoboRlError):
            raise answer
        self.world: EnvInterface = answer
        self.reserve(1)

    def reserve(self, steps: int) -> None:
        """Share memory with room for ``steps`` steps, unless there is enough.

        Raises:
            DeviceError: There is not enough memory.
        """
        if self._room < steps:
            shapes, message = (
                shared_fields(self.world, self._num_envs, steps),
                (0, "memory", {"steps": steps}),
            )
            self.arrays = share_arrays(shapes, lambda fd: self._channel.send(message, fd))
            self._room = steps

    def send(self, kind: str, seq: int, **arguments: Any) -> None:
        """Send a command; see ``Worker``."""
        self._progress_then = self._progress()
        with suppress(OSError):
            self._channel.send((seq, kind, arguments))

    def receive(self, seq: int, watch: AwakeWatch) -> RoboRlError | WorkerLoss | None:
        """Wait for an answer; see ``Worker``."""
        return self._await(seq, self._step_timeout_s, watch)

    def close(self) -> None:
        """Close its channel, which makes it exit."""
        self._channel.close()
        self.arrays = {}

    def terminate(self, deadline: float) -> None:
        """Wait, then send SIGKILL, which also ends a stopped process; see ``Worker``."""
        end_interpreter(self._process, deadline)

    def _await(self, seq: int, timeout_s: float, watch: AwakeWatch) -> Any:
        """Return the answer to message seq, or ``WorkerLoss``; progress extends the time."""
        seen, deadline_s = self._progress_then, timeout_s
        while True:
            try:
                if watch.wait(self._channel.poll, timeout_s / 4):
                    (answered, answer), _ = self._channel.receive()
                    if answered == seq:
                        return answer
            except (EOFError, OSError):
                return WorkerLoss(self._fate())
            progress = self._progress()
            if progress != seen:
                seen, deadline_s = progress, watch.elapsed_s + timeout_s
            elif watch.elapsed_s >= deadline_s:
                return WorkerLoss(f"no progress for {timeout_s:g} s")

    def _progress(self) -> int:
        return int(self.arrays["progress"][0]) if self.arrays else 0

    def _fate(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            return exit_description(self._process.wait(timeout=1.0))
        return "it closed its channel"


class GymPool(WorkerPool[GymWorker]):
    """num_envs envs spread over num_workers processes.

    Args:
        request: The env to make.
        num_envs: B.
        num_workers: At most B.
        step_timeout_s: See ``GymWorker``.
        start_timeout_s: See ``GymWorker``.

    Raises:
        PluginError: The env cannot be made.
        SpecError: Its spaces are not supported.
        ConfigError: It has no time limit.
        DeviceError: There is not enough memory, or there are cameras and no OpenGL.
    """

    world: EnvInterface

    def __init__(
        self,
        request: EnvRequest,
        num_envs: int,
        num_workers: int,
        *,
        step_timeout_s: float,
        start_timeout_s: float,
    ) -> None:
        spawn = partial(GymWorker, request, start_timeout_s, step_timeout_s)
        super().__init__(_where(request), num_envs, num_workers, spawn)

    def write_act(self, act: Any, resting: Any) -> None:
        """Write actions (B, T, A), and which envs rest (B,), numpy arrays, to shared memory.

        Raises:
            DeviceError: There is not enough memory for T steps.
        """
        steps = act.shape[1]
        for worker, ids in zip(self._workers, self.ids, strict=True):
            worker.reserve(steps)
            worker.arrays["act"][:, :steps] = act[ids.start : ids.stop]
            worker.arrays["resting"][:] = resting[ids.start : ids.stop]

    def block(self, steps: int) -> Block:
        """Return a copy of the workers' output of a rollout; see ``steps``."""
        return copy_block([worker.arrays for worker in self._workers], steps)

    def _unlike(self) -> RoboRlError:
        problem = "envs of the same arguments differ in their spaces or limits"
        return PluginError(problem, where=self.where)

    def _given_up(self, worker: int, times: int, loss: WorkerLoss) -> RoboRlError:
        return PluginError(
            f"the worker of envs {list(self.ids[worker])} was lost {times} times in a row: "
            f"{loss.reason}",
            where=self.where,
            hint="run the env alone to see why; step_timeout_s sets how long it may hang",
        )


def _environment(request: EnvRequest) -> dict[str, str] | None:
    """Return the environment variables of a worker; one that renders needs an OpenGL library."""
    if not request.cameras:
        return None
    return {"LP_NUM_THREADS": "0", **opengl_environment(working_opengl())}


def _where(request: EnvRequest) -> str:
    return f"Gymnasium env '{request.id}'"
