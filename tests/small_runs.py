"""A whole road in seconds, and a server that runs ``robo-rl`` in processes that may be killed.

Run as a program, it is the server: it imports once, then reads jobs, one JSON object a line, and
forks a ``robo-rl`` for each. It says the process id, and in the end status and output.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import yaml

STAGES = {
    "collect": {"episodes": 6, "num_envs": 4},
    "bc": {"steps": 60, "batch": 64, "checkpoint_every": 20},
    "online": {
        "updates": 2,
        "num_envs": 8,
        "decisions": 3,
        "checkpoint_every": 1,
        "algo": {"warmup_updates": 1, "critic": {"hidden": [32]}},
        "guard": {"final_episodes": 0},
    },
    "distill": {"rounds": 1, "num_envs": 8, "decisions": 3, "steps": 30, "batch": 32},
}
EXPERIMENT: dict[str, Any] = {
    "name": "tiny",
    "task": {"name": "reach", "robot": "panda", "episode_s": 1.0, "success_m": 0.12},
    "policy": {
        "name": "flow",
        "num_steps": 2,
        "horizon": 4,
        "exec_horizon": 4,
        "net": {"name": "mlp", "width": 32, "depth": 1},
    },
    "eval": {"episodes": 8, "num_envs": 8},
    "stages": STAGES,
    "waive": dict.fromkeys(STAGES, "too short to pass"),
}
EXPORT: dict[str, Any] = {"stages": {**STAGES, "export": {"latency_calls": 100}}}


def write_experiment(directory: Path, **changes: Any) -> Path:
    """The tiny experiment with some of its values replaced, as a file."""
    path = directory / "tiny.yaml"
    path.write_text(yaml.safe_dump({**EXPERIMENT, **changes}, sort_keys=False))
    return path


VARIES = {"seconds", "digest", "latency_us"}
"""What is another number in every run."""


def outcome(directory: Path) -> dict[str, Any]:
    """All numbers, gates and curves of a finished run, and the hash of every weight."""
    found: dict[str, Any] = {}
    for path in sorted(directory.glob("0*/report.json")):
        report = json.loads(path.read_text())
        found[path.parent.name] = {k: v for k, v in report.items() if k not in VARIES}
    for path in sorted(directory.glob("0*/policy/*.*")):  # weights, and what describes them
        found[str(path.relative_to(directory))] = hashlib.sha256(path.read_bytes()).hexdigest()
    for path in sorted(directory.glob("0*/metrics.jsonl")):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        found[str(path.relative_to(directory))] = [
            {name: value for name, value in row.items() if not name.endswith("_s")} for row in rows
        ]
    return found


class Ended(NamedTuple):
    """How a ``robo-rl`` ended: exit status, negative where a signal killed it, and its output."""

    status: int
    output: str


class Runner:
    """Runs ``robo-rl`` command lines, each in a process of its own.

    ``others`` are the statuses of the processes that assisted in the last one; their output is in
    its.
    """

    def __init__(self) -> None:
        self.others = list[int]()
        pipe = subprocess.PIPE
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=pipe,
            stdout=pipe,
            text=True,
            bufsize=1,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin
        self._server.stdin.close()
        self._server.wait(timeout=60)

    def run(
        self,
        *words: object,
        kill_when: Callable[[], None] | None = None,
        by: int = signal.SIGKILL,
        file_bytes: int | None = None,
        processes: int = 1,
    ) -> Ended:
        """Run a command line to its end, or kill it.

        Args:
            words: Behind ``robo-rl``.
            kill_when: Returns when it is time to send a signal to the last of its processes.
            by: That signal.
            file_bytes: The largest file that it may write; the disk is full beyond.
            processes: How many train together, launched as by ``torchrun``.
        """
        assert self._server.stdin
        assert self._server.stdout
        job = {
            "words": [str(word) for word in words],
            "file_bytes": file_bytes,
            "processes": processes,
        }
        print(json.dumps(job), file=self._server.stdin, flush=True)
        pids = json.loads(self._server.stdout.readline())
        if kill_when is not None:
            kill_when()
            os.kill(pids[-1], by)  # until it is reaped, which is later, it has its id
        print("reap", file=self._server.stdin, flush=True)
        ended = json.loads(self._server.stdout.readline())
        self.others = ended.pop("others")
        return Ended(**ended)


def _import_everything() -> None:
    """What a run would load when it gets there; no thread may be started, because forks follow."""
    for name in ("torch._dynamo", "scipy.stats", "mink", "robo_rl.train.pipeline.run"):
        import_module(name)
    from robo_rl.config.models import validate
    from robo_rl.train.pipeline.experiment import Experiment

    validate(EXPERIMENT, Experiment)


def _serve() -> None:
    _import_everything()
    for line in sys.stdin:
        job = json.loads(line)
        reading, writing = os.pipe()
        pids = list[int]()
        with tempfile.TemporaryDirectory() as folder:
            for rank in range(job["processes"]):
                if not (pid := os.fork()):
                    _launch(rank, job["processes"], folder)
                    _become(job, writing)
                pids.append(pid)
            os.close(writing)
            print(json.dumps(pids), flush=True)
            sys.stdin.readline()
            output = _read_all(reading)
            ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        print(json.dumps({"status": ends[0], "output": output, "others": ends[1:]}), flush=True)


def _launch(rank: int, size: int, folder: str) -> None:
    if size > 1:
        store = {"ROBO_RL_STORE": f"{folder}/store", "GLOO_SOCKET_IFNAME": "lo"}
        os.environ.update({"RANK": str(rank), "WORLD_SIZE": str(size), **store})


def _become(job: dict[str, Any], writing: int) -> None:
    """Be ``robo-rl``, without pictures, which are tested elsewhere and take seconds."""
    from robo_rl.cli.main import main
    from robo_rl.train.stages import video

    signal.signal(signal.SIGINT, signal.default_int_handler)  # also in the background of a shell
    video.render_policy_video = lambda *_args, **_kwargs: None
    for stream in (1, 2):
        os.dup2(writing, stream)
    os.close(writing)
    if job["file_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["file_bytes"], job["file_bytes"]))
    status = 1
    try:
        status = main(job["words"])
    except BaseException:
        import traceback

        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _read_all(reading: int) -> str:
    with os.fdopen(reading, errors="replace") as pipe:
        return pipe.read()


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and children inherit
    _serve()
