"""Runs of several processes: what they come to, and that they end and resume as one."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_gym import gone
from small_runs import STAGES, Runner, write_experiment

from robo_rl.train.checkpoint.metrics_log import read_metrics

ONLINE = "02-online"
LONG = (
    "stages.online.updates=20",
    "stages.online.shards=2",
    "stages.online.algo.lr_max=1e-4",
    "stages.online.student.steps=2",
    "stages.online.guard.final_episodes=8",
)
TOLERANCE = 1e-5
SMALL = {
    "ratio_error": 1e-6,
    "kl": 3e-6,
    "kl_mean": 3e-6,
    "kl_max": 1e-5,
    "explained_variance": 1e-5,
}  # differences of nearly equal float32 numbers


@pytest.fixture
def cloned(road, tmp_path: Path) -> Path:
    """A folder of runs in which the tiny road stands before its online stage."""
    shutil.copytree(road.out, tmp_path / "runs")
    for stage in (ONLINE, "03-distill"):
        shutil.rmtree(tmp_path / "runs" / "tiny" / stage)
    return tmp_path / "runs"


def train(runner: Runner, road, out: Path, *changes: str, **how):
    words = ("run", road.config, *changes, "--out", out, "--until", "online")
    return runner.run(*words, **how)


def numbers(out: Path) -> list[dict[str, float]]:
    """What was measured in training, without how long it took."""
    return [
        {name: value for name, value in row.items() if not name.endswith("_s")}
        for row in read_metrics(out / "tiny" / ONLINE / "metrics.jsonl")
    ]


def assert_alike(one: list[dict[str, float]], other: list[dict[str, float]]) -> None:
    assert [row["step"] for row in one] == [row["step"] for row in other]
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        far = {
            k
            for k in a
            if not math.isclose(a[k], b[k], rel_tol=TOLERANCE, abs_tol=SMALL.get(k, 1e-9))
        }
        unknown = {k for k in far if math.isnan(a[k]) and math.isnan(b[k])}
        assert far == unknown, (a["step"], {k: (a[k], b[k]) for k in far - unknown})


def until_checkpoint(out: Path, number: int):
    """Returns once a checkpoint of that number is there."""

    def wait() -> None:
        deadline = time.monotonic() + 120
        while not (out / "tiny" / ONLINE / "ckpt" / f"{number:06d}").exists():
            assert time.monotonic() < deadline
            time.sleep(0.002)

    return wait


def test_two_processes_come_to_what_one_with_the_same_parts_comes_to(
    runner: Runner, road, cloned: Path, tmp_path: Path
):
    alone = shutil.copytree(cloned, tmp_path / "alone")
    assert train(runner, road, alone, *LONG).status == 0
    ended = train(runner, road, cloned, *LONG, processes=2)
    assert ended.status == 0, ended.output
    assert runner.others == [0]
    assert "2 processes, 8 envs in 2 parts" in ended.output
    assert len(numbers(alone)) == 20
    assert_alike(numbers(alone), numbers(cloned))


@pytest.mark.slow
def test_a_killed_process_ends_the_run_in_a_line_and_any_number_resumes_it(
    runner: Runner, road, cloned: Path, tmp_path: Path
):
    whole = shutil.copytree(cloned, tmp_path / "whole")
    assert train(runner, road, whole, *LONG).status == 0
    killed = train(runner, road, cloned, *LONG, processes=2, kill_when=until_checkpoint(cloned, 3))
    assert (killed.status, runner.others) == (4, [-9])
    last = killed.output.splitlines()[-1]
    assert last.startswith("robo-rl: another process of this run has ended")
    assert "the same command resumes" in last
    assert "Traceback" not in killed.output
    again = train(runner, road, cloned, *LONG, kill_when=until_checkpoint(cloned, 9))
    assert again.status == -9
    assert train(runner, road, cloned, *LONG, processes=2).status == 0
    assert_alike(numbers(whole), numbers(cloned))


@pytest.mark.slow
def test_groups_of_two_processes_go_on_with_one(runner: Runner, road, cloned: Path):
    """Blocks of whole episodes differ in length, so that a process has one part at most."""
    change = ("stages.online.updates=6", "stages.online.algo.group_size=2")
    wait = until_checkpoint(cloned, 2)
    killed = train(runner, road, cloned, *change, processes=2, kill_when=wait)
    assert killed.status == 4, killed.output
    wait = until_checkpoint(cloned, 4)
    assert train(runner, road, cloned, *change, kill_when=wait).status == -9
    ended = train(runner, road, cloned, *change)
    assert ended.status == 0, ended.output
    assert [row["step"] for row in numbers(cloned)] == [1, 2, 3, 4, 5, 6]


def test_a_run_of_one_goes_on_with_two(runner: Runner, road, cloned: Path):
    """Its envs cannot be shared out as they stand, so episodes begin anew; all else goes on."""
    change = "stages.online.updates=6"
    assert train(runner, road, cloned, change, kill_when=until_checkpoint(cloned, 2)).status == -9
    ended = train(runner, road, cloned, change, processes=2)
    assert ended.status == 0, ended.output
    steps = [row["env_steps"] for row in numbers(cloned)]
    assert len(steps) == 6
    assert all(b > a for a, b in itertools.pairwise(steps))


@pytest.mark.parametrize(
    "algo",
    [
        ("stages.online.algo.name=nft",),
        ("stages.online.algo.group_size=2",),
        pytest.param(
            ("stages.online.algo.ratio=cfm", "stages.online.algo.advantage=monte_carlo"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["nft", "groups", "cfm"],
)
def test_what_else_learns_together(runner: Runner, road, cloned: Path, algo: tuple[str, ...]):
    ended = train(runner, road, cloned, *algo, processes=2)
    assert ended.status == 0, ended.output
    assert [row["step"] for row in numbers(cloned)] == [1, 2]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (("stages.online.shards=1",), "online.shards; expected a multiple of 2"),
        (("stages.online.num_envs=7",), "online.num_envs"),
    ],
)
def test_what_does_not_come_out_even_is_refused(
    runner: Runner, road, cloned: Path, changes: tuple[str, ...], says: str
):
    ended = train(runner, road, cloned, *changes, processes=2)
    assert ended.status == 2
    assert says in ended.output
    assert "Traceback" not in ended.output


def test_an_algorithm_that_learns_alone_is_refused(runner: Runner, cloned: Path, tmp_path: Path):
    online = {**STAGES["online"], "algo": {"name": "sac"}}
    config = write_experiment(tmp_path, stages={**STAGES, "online": online})
    ended = runner.run("run", config, "--out", cloned, "--until", "online", processes=2)
    assert ended.status == 2
    assert "Sac does not learn in several processes" in ended.output


def test_more_gpus_than_there_are(runner: Runner, road, cloned: Path):
    ended = train(runner, road, cloned, "launch.gpus=99", "stages.online.num_envs=99")
    assert ended.status == 2
    assert "launch.gpus; expected at most" in ended.output


def children_of(pid: int) -> list[int]:
    """Processes that it started, leaving out what they started."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed]


def launch(road, cloned: Path, *changes: str) -> subprocess.Popen[str]:
    """``robo-rl run`` of two processes by our own launcher."""
    words = [
        "run",
        road.config,
        "--out",
        cloned,
        "--until",
        "online",
        "launch.processes=2",
        *changes,
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "robo_rl", *map(str, words)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=_hear_ctrl_c,
    )


def _hear_ctrl_c() -> None:
    """Also where the tests run in the background of a shell, which has its jobs ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_the_launcher_says_in_one_line_which_process_was_killed(road, cloned: Path, rank: int):
    launched = launch(road, cloned, "stages.online.updates=2000")
    until_checkpoint(cloned, 2)()
    os.kill(children_of(launched.pid)[rank], signal.SIGKILL)
    said = launched.communicate(timeout=60)[1].splitlines()
    assert launched.returncode == 2
    assert f"process {rank} of 2 was ended by signal 9; the same command resumes" in said[-1]
    assert not [line for line in said if "Traceback" in line or "another process" in line]


@pytest.mark.slow
def test_the_processes_end_with_their_launcher(road, cloned: Path):
    launched = launch(road, cloned, "stages.online.updates=2000")
    until_checkpoint(cloned, 2)()
    children = children_of(launched.pid)
    launched.kill()
    launched.communicate(timeout=60)
    deadline = time.monotonic() + 20
    while not all(gone(pid) for pid in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_signal_to_the_launcher_ends_all_processes_after_the_same_update(
    runner: Runner, road, cloned: Path, tmp_path: Path, number: int
):
    rarely = (*LONG, "stages.online.checkpoint_every=1000")
    launched = launch(road, cloned, *rarely)
    metrics = cloned / "tiny" / ONLINE / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not metrics.exists() or metrics.read_bytes().count(b"\n") < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    launched.send_signal(number)
    said = launched.communicate(timeout=60)[1].splitlines()
    assert launched.returncode == 128 + number, said
    done = len(numbers(cloned))
    assert f"{done} updates are kept, the same command resumes there" in said[-1]
    assert [path.name for path in metrics.parent.glob("ckpt/*")] == [f"{done:06d}"]
    if number == signal.SIGINT:
        whole = shutil.copytree(road.out, tmp_path / "whole")
        for stage in (ONLINE, "03-distill"):
            shutil.rmtree(whole / "tiny" / stage)
        assert train(runner, road, whole, *rarely).status == 0
        assert train(runner, road, cloned, *rarely, processes=2).status == 0
        assert_alike(numbers(whole), numbers(cloned))


@pytest.mark.slow
def test_launched_by_torchrun(road, cloned: Path):
    words = ["run", road.config, "--out", cloned, "--until", "online"]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *torchrun, "-m", "robo_rl", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert "2 processes, 8 envs in 2 parts" in done.stderr
    assert done.stdout.count("online ") == 1


@pytest.mark.slow
def test_launched_by_ourselves(runner: Runner, road, cloned: Path):
    change = "stages.online.updates=2"
    ended = train(runner, road, cloned, change, "launch.processes=2")
    assert ended.status == 0, ended.output
    assert "2 processes, 8 envs in 2 parts" in ended.output
    assert [line.split()[0] for line in ended.output.splitlines()[-8:]] == [
        "stage", "collect", "bc", "online", "collect:", "bc:", "online:", "in",
    ]  # fmt: skip
