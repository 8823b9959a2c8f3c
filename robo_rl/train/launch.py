"""Several processes for one run on this machine, without ``torchrun``.

They find each other by a file and speak over the loopback interface alone. The first one's words
are the run's; the others are heard when they are what ended it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from robo_rl.config import compose, validate
from robo_rl.errors import DeviceError, ParallelError
from robo_rl.ranks import STORE, launched
from robo_rl.train.stage import Experiment, Launch

_POLL_S, _GRACE_S = 0.2, 10.0
_LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}


def wanted(experiment: str, overrides: Sequence[str]) -> int:
    """How many processes an experiment asks for; 1 in one that was launched together with others.

    Raises:
        ConfigError: The experiment does not validate.
        DeviceError: It asks for more GPUs than there are.
    """
    launch = validate(compose(experiment, overrides), Experiment).launch
    if launched().size > 1:
        return 1
    return max(1, launch.processes, _gpus(launch))


def run_together(number: int, words: Sequence[str]) -> None:
    """Run a command line in so many processes, and wait for all of them.

    Raises:
        ParallelError: One ended before its time, and the first did not say why.
        SystemExit: The first one ended with an error and has said it, or was interrupted.
    """
    with tempfile.TemporaryDirectory(prefix="robo-rl-") as folder:
        running = [_start(rank, number, words, Path(folder)) for rank in range(number)]
        try:
            failed = _await_all(running)
        except KeyboardInterrupt:  # they have it as well, and the first one says so
            raise SystemExit(130) from None
        finally:
            _end(running)
        if failed is not None:
            ends = [process.returncode for process in running]
            _explain(failed, ends, _last_words(failed, Path(folder)))


def _gpus(launch: Launch) -> int:
    there = torch.cuda.device_count() if launch.gpus else 0
    if launch.gpus > there:
        raise DeviceError(
            "launch.gpus", expected=f"at most {there}", found=launch.gpus,
            hint="launch.processes=N trains in N processes on the CPU",
        )  # fmt: skip
    return launch.gpus


def _start(rank: int, number: int, words: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": number, "LOCAL_WORLD_SIZE": number}
    threads = max(1, len(os.sched_getaffinity(0)) // number)
    environment = {
        "OMP_NUM_THREADS": str(threads),
        **os.environ,
        **{name: str(value) for name, value in place.items()},
        **_LOOPBACK,
        STORE: str(folder / "store"),
    }
    command = [sys.executable, "-m", "robo_rl", *words]
    if rank == 0:
        return subprocess.Popen(command, env=environment)
    with _words_of(rank, folder).open("wb") as said:
        return subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=said,
            stdin=subprocess.DEVNULL,
        )


def _await_all(running: Sequence[subprocess.Popen[bytes]]) -> int | None:
    """Until all have ended, or one has failed and the others had time to notice; says which."""
    while any(process.poll() is None for process in running):
        failed = [rank for rank, process in enumerate(running) if process.poll()]
        if failed:
            _end(running)
            return failed[0]
        time.sleep(_POLL_S)
    return next((rank for rank, process in enumerate(running) if process.returncode), None)


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait for them for a while, then terminate them, then kill them."""
    for step in (subprocess.Popen.poll, subprocess.Popen.terminate, subprocess.Popen.kill):
        left = [process for process in running if process.poll() is None]
        for process in left:
            step(process)
        deadline = time.monotonic() + _GRACE_S
        while time.monotonic() < deadline and any(process.poll() is None for process in left):
            time.sleep(_POLL_S)


def _explain(failed: int, ends: Sequence[int], said: str) -> None:
    """Say why a run ended, unless its first process has."""
    name = f"process {failed} of {len(ends)}"
    if failed and ends[failed] > 0 and said:
        raise ParallelError(f"{name}: {said.removeprefix('robo-rl: ')}")
    if ends[0] > 0:
        raise SystemExit(ends[0])
    raise ParallelError(
        f"{name} was ended by signal {-ends[failed]}",
        hint="the same command resumes where it stopped",
    )


def _last_words(rank: int, folder: Path) -> str:
    file = _words_of(rank, folder)
    lines = file.read_text(errors="replace").splitlines() if file.exists() else []
    return lines[-1] if lines else ""


def _words_of(rank: int, folder: Path) -> Path:
    return folder / f"{rank}.log"
