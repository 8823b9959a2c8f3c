"""Runs of several processes: what they come to, and that they end and resume as one."""

from __future__ import annotations

import itertools
import math
import shutil
import time
from pathlib import Path

import pytest
from small_runs import Runner

from robo_rl.train.logger import read_metrics

ONLINE = "02-online"
LONG = ("stages.online.updates=20", "stages.online.shards=2")
TOLERANCE = 1e-5


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
        far = {k for k in a if not math.isclose(a[k], b[k], rel_tol=TOLERANCE, abs_tol=TOLERANCE)}
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
    assert ended.others == [0]
    assert "2 processes, 8 envs in 2 parts" in ended.output
    assert len(numbers(alone)) == 20
    assert_alike(numbers(alone), numbers(cloned))


def test_a_killed_process_ends_the_run_in_a_line_and_any_number_resumes_it(
    runner: Runner, road, cloned: Path, tmp_path: Path
):
    whole = shutil.copytree(cloned, tmp_path / "whole")
    assert train(runner, road, whole, *LONG).status == 0
    killed = train(runner, road, cloned, *LONG, processes=2, kill_when=until_checkpoint(cloned, 3))
    assert (killed.status, killed.others) == (2, [-9])
    last = killed.output.splitlines()[-1]
    assert last.startswith("robo-rl: another process of this run has ended")
    assert "the same command resumes" in last
    assert "Traceback" not in killed.output
    again = train(runner, road, cloned, *LONG, kill_when=until_checkpoint(cloned, 9))
    assert again.status == -9
    assert train(runner, road, cloned, *LONG, processes=2).status == 0
    assert_alike(numbers(whole), numbers(cloned))


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
        ("stages.online.algo.ratio=cfm", "stages.online.algo.credit=returns"),
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
        (("stages.online.shards=3",), "online.shards; expected a multiple of 2"),
        (("stages.online.num_envs=7",), "online.num_envs"),
        (("stages.online.algo.name=sac",), "'sac' does not learn in several processes"),
    ],
)
def test_what_does_not_come_out_even_is_refused(
    runner: Runner, road, cloned: Path, changes: tuple[str, ...], says: str
):
    ended = train(runner, road, cloned, *changes, processes=2)
    assert ended.status == 2
    assert says in ended.output
    assert "Traceback" not in ended.output


def test_more_gpus_than_there_are(runner: Runner, road, cloned: Path):
    ended = train(runner, road, cloned, "launch.gpus=99")
    assert ended.status == 2
    assert "launch.gpus; expected at most" in ended.output


def test_launched_by_ourselves(runner: Runner, road, cloned: Path):
    change = "stages.online.updates=2"
    ended = train(runner, road, cloned, change, "launch.processes=2")
    assert ended.status == 0, ended.output
    assert "2 processes, 8 envs in 2 parts" in ended.output
    assert [line.split()[0] for line in ended.output.splitlines()[-5:]] == [
        "stage", "collect", "bc", "online", "in",
    ]  # fmt: skip
