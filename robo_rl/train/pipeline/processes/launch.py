"""Launches several processes for one run on this machine, without ``torchrun``.

The processes meet through a file and use only the loopback interface. The first process's output
is the run's output. The output of the others is shown only if they end the run. All processes end
with their launcher, even if it is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

import torch

from robo_rl.config.models import compose, validate
from robo_rl.core.errors import DeviceError, LostProcessError, ParallelError, RoboRlError
from robo_rl.distributed.process_group import LAUNCHER, STORE, launched_rank_info
from robo_rl.train.checkpoint.interrupt import Interrupted, signal_handler
from robo_rl.train.pipeline.experiment import Experiment, Launch, run_until

_POLL_S, _GRACE_S = 0.2, 10.0
_SAVING_S = 120.0
"""Time in s that the other processes have for saving, after one has ended by a signal."""
_LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
_INNOCENT = (0, LostProcessError.status)

Process = subprocess.Popen[bytes]


def num_processes(experiment: str, overrides: Sequence[str], until: str | None = None) -> int:
    """Return the number of processes of an experiment; 1 inside a launched process.

    Args:
        experiment: Name or file of the experiment.
        overrides: ``dotted.key=value`` each.
        until: Label of the last stage that runs; None runs all.

    Raises:
        ConfigError: The experiment does not validate.
        DeviceError: It asks for more GPUs than there are, or two processes would share one.
    """
    checked = validate(compose(experiment, overrides), Experiment, run_until(until))
    if launched_rank_info().world_size > 1:
        return 1
    number = max(1, checked.launch.processes, _gpus(checked.launch))
    if number > 1:
        _demand_own_devices(checked, number)
    return number


def run_processes(number: int, words: Sequence[str]) -> None:
    """Run a command line in several processes and wait for all of them.

    A signal is passed on to all of them, and they end after the same update. A second signal ends
    them at once.

    Raises:
        ParallelError: A process ended early, and the first one did not say why.
        SystemExit: The first process ended with a reported error, or was interrupted.
    """
    running = list[Process]()
    relay = _Relay(running)
    with tempfile.TemporaryDirectory(prefix="robo-rl-") as name, signal_handler(relay.on_signal):
        folder = Path(name)
        try:
            while len(running) < number and not relay.heard:
                running.append(_start(len(running), number, words, folder))
            while not (relay.urgent or _settled(running)):
                time.sleep(_POLL_S)
        finally:
            ours = _end(running, relay)
        ends = {rank: process.returncode for rank, process in enumerate(running)}
        if relay.heard and any(ends.values()):
            raise SystemExit(Interrupted(relay.heard).status)  # the first process has reported it
        _explain({rank: end for rank, end in ends.items() if rank not in ours}, number, folder)


class _Relay:
    """Passes signals on to the processes; each of them ends its own children."""

    def __init__(self, running: Sequence[Process]) -> None:
        self._running, self.heard, self.urgent = running, 0, False

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.heard and number == signal.SIGHUP:
            return  # a closed terminal sends it twice
        self.urgent, self.heard = bool(self.heard), number
        for process in self._running:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, number)


def _gpus(launch: Launch) -> int:
    there = torch.cuda.device_count() if launch.gpus else 0
    if launch.gpus > there:
        hint = "launch.processes=N device=cpu trains in N processes on the CPU"
        expected = f"at most {there}"
        raise DeviceError("launch.gpus", expected=expected, found=launch.gpus, hint=hint)
    return launch.gpus


def _demand_own_devices(experiment: Experiment, number: int) -> None:
    """Check that each of the processes has a GPU of its own, or all are on the CPU."""
    if experiment.place.type == "cpu":
        return
    there, named = torch.cuda.device_count(), ":" in experiment.device
    if named or number > there:
        raise DeviceError(
            "processes that train together need a GPU each",
            where="device" if named else "launch",
            expected="device: auto or cuda" if named else f"at most {there} processes",
            found=experiment.device if named else number,
            hint="device=cpu trains them on the CPU",
        )


def _start(rank: int, number: int, words: Sequence[str], folder: Path) -> Process:
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": number, "LOCAL_WORLD_SIZE": number}
    environment = {
        **os.environ,
        **{name: str(value) for name, value in place.items()},
        **_LOOPBACK,
        STORE: str(folder / "store"),
        LAUNCHER: "1",
    }
    with _words_of(rank, folder).open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "robo_rl.train.pipeline.processes.child_process", *words],
            stdin=subprocess.PIPE,  # the children end when this pipe closes
            stdout=subprocess.DEVNULL,
            stderr=None if rank == 0 else said,
            env=environment,
            start_new_session=True,
        )


def _settled(running: Sequence[Process]) -> bool:
    """Return whether all processes have ended, or one has ended the run."""
    ends = [process.poll() for process in running]
    return any(ends) or all(end == 0 for end in ends)


def _end(running: Sequence[Process], relay: _Relay) -> set[int]:
    """Wait for all processes, kill the rest after a timeout, and return the killed ranks."""
    begun = time.monotonic()
    while any(process.poll() is None for process in running):
        patience = _SAVING_S if relay.heard and not relay.urgent else _GRACE_S
        if time.monotonic() > begun + patience:
            break
        time.sleep(_POLL_S)
    left = {rank for rank, process in enumerate(running) if process.poll() is None}
    for process in running:
        _kill(process)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
    return left


def _kill(process: Process) -> None:
    """Kill a process and all that it started."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _explain(ends: dict[int, int], number: int, folder: Path) -> None:
    """Raise the error of the first process that failed by itself."""
    if not any(ends.values()):
        return
    guilty = [rank for rank, end in ends.items() if end not in _INNOCENT]
    if not guilty:
        logs = [_words_of(other, folder).read_text(errors="replace") for other in range(1, number)]
        problem = "the processes have lost each other"
        raise ParallelError(problem, found=_cause(logs), hint=_RESUMES)
    rank, end = guilty[0], ends[guilty[0]]
    name = f"process {rank} of {number}"
    said = _words_of(rank, folder).read_text(errors="replace")
    if end < 0:
        sys.stderr.write(said)  # output of a library as it aborts
        raise ParallelError(f"{name} was ended by signal {-end}", hint=_RESUMES)
    if rank == 0:
        raise SystemExit(end)  # the first process has reported it
    last = (said.splitlines() or ["nothing was said"])[-1]
    if not last.startswith(_OURS):
        sys.stderr.write(said)  # a traceback, or noise behind our line
    cause = _cause([said]) if end == RoboRlError.status else None
    raise ParallelError(f"{name}: {cause or last.removeprefix(_OURS)}")


def _cause(logs: Sequence[str]) -> str | None:
    """Return the last line of ours that is no warning, or else of anyone; of the first such log."""
    lines = [[line for line in said.splitlines() if line.strip()] for said in logs]
    ours = [
        [line for line in of if line.startswith(_OURS) and not line.startswith(_WARNS)]
        for of in lines
    ]
    return next((of[-1].removeprefix(_OURS) for of in (*ours, *lines) if of), None)


_RESUMES, _OURS = "the same command resumes where it stopped", "robo-rl: "
_WARNS = f"{_OURS}warning: "


def _words_of(rank: int, folder: Path) -> Path:
    return folder / f"{rank}.log"
