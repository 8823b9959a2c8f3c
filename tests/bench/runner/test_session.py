"""A suite is run, killed, interrupted and gone on with; what is kept in the end is the same."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_suites import SUITE, write_suite

from robo_rl.core.file_lock import lock_file
from robo_rl.env.gym_envs.env import usable_cpus

pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow]

METHODS = {name: SUITE["methods"][name] for name in ("default", "sde")}
SMALL = {"tasks": {"near": {}}, "methods": METHODS, "seeds": [0]}
VARIES = {"ended", "seconds", "curve", "starts"}


def _hear_ctrl_c() -> None:
    """Also where the tests run in the background of a shell, which has its jobs ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Bench:
    """Runs ``robo-rl bench tiny`` in a folder, in a process that may be ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "robo_rl", "bench", "tiny", *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=_hear_ctrl_c,
            env={**os.environ, "MUJOCO_GL": "disabled"},
        )

    def run(self, *words: str) -> tuple[int, str]:
        process = self.start(*words)
        output, _ = process.communicate()
        return process.returncode, output

    def end(self, number: signal.Signals, *, after: str) -> int:
        """Start it, and end it once there is a file of that pattern and all is under way."""
        process = self.start()
        until = time.monotonic() + 600
        while not list(self.folder.glob(f"runs/bench/tiny/{after}")):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < until
            time.sleep(0.05)
        os.kill(process.pid, number)
        process.communicate(timeout=60)
        assert eventually(lambda: not self.children())
        return process.returncode

    def children(self) -> list[str]:
        """Runs of this folder that are still under way."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words, place = (path / "cmdline").read_bytes(), (path / "cwd").readlink()
            except OSError:
                continue
            if b"robo_rl.train.pipeline.processes.child_process" in words and place == self.folder:
                found.append(path.name)
        return found

    def kept(self) -> dict[str, Any]:
        """All that is kept, but for what takes its time."""
        root = self.folder / "benchmarks" / "results" / "tiny"
        return {
            str(path.relative_to(root)): lasting(json.loads(path.read_text()))
            for path in sorted(root.rglob("*.json"))
        }


def eventually(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        time.sleep(0.05)
    return holds()


def lasting(value: Any) -> Any:
    if isinstance(value, dict):
        curve = {"points": [[*row[:1], *row[2:]] for row in value.get("curve", [])]}
        return curve | {k: lasting(v) for k, v in value.items() if k not in VARIES}
    return value


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The small suite, run as a whole."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write_suite(folder, **SMALL)
    bench = Bench(folder)
    status, output = bench.run("--json", "numbers.json")
    assert status == 0, output
    return bench


def test_every_cell_is_kept_and_summed_up(undisturbed: Bench):
    kept = undisturbed.kept()
    assert list(kept) == ["near/default/0.json", "near/sde/0.json"]
    numbers = json.loads((undisturbed.folder / "numbers.json").read_text())
    for name, cell in kept.items():
        method = name.split("/")[1]
        success = cell["stages"]["online"]["numbers"]["success"]
        assert numbers["tasks"]["near"][method]["success"] == success["value"]
        assert (success["n"], len(cell["points"])) == (8, 4)
        assert cell["threads"] == usable_cpus()
    assert numbers["missing"] == []


def test_how_it_was_run_is_kept_with_every_cell(undisturbed: Bench):
    (line,) = {json.dumps(cell["sittings"]) for cell in undisturbed.kept().values()}
    (pace,) = json.loads(line)
    assert (pace["jobs"], pace["threads"]) == (1, usable_cpus())
    assert pace["version"].startswith("0.")


def test_methods_start_from_the_same_clone_which_was_made_once(undisturbed: Bench):
    runs = undisturbed.folder / "runs" / "bench" / "tiny"
    policies = [path.read_bytes() for path in runs.glob("*/*/*/01-bc/policy/tensors.safetensors")]
    assert len(policies) == 2
    assert policies[0] == policies[1]
    (shared,) = (path.parent for path in runs.glob("shared/*/run.json"))
    assert (shared / "01-bc" / "policy" / "tensors.safetensors").read_bytes() == policies[0]
    cells = undisturbed.kept().values()
    assert all(cell["stages"]["bc"]["shared"] for cell in cells)
    assert not any(cell["stages"]["online"]["shared"] for cell in cells)


def test_a_finished_suite_is_not_run_again(undisturbed: Bench):
    before = {path: path.stat().st_mtime_ns for path in undisturbed.folder.rglob("*.*")}
    status, output = undisturbed.run()
    assert status == 0
    assert "begun" not in output
    after = {path: path.stat().st_mtime_ns for path in undisturbed.folder.rglob("*.*")}
    assert after == before


def test_what_was_killed_and_interrupted_ends_as_if_it_had_not_been(
    undisturbed: Bench, tmp_path: Path
):
    write_suite(tmp_path, **SMALL)
    bench = Bench(tmp_path)
    assert bench.end(signal.SIGKILL, after="shared/*/01-bc/ckpt/0*") == -signal.SIGKILL
    assert bench.kept() == {}
    assert bench.end(signal.SIGKILL, after="near/default/*/02-online/ckpt/0*") == -signal.SIGKILL
    assert bench.end(signal.SIGINT, after="near/sde/*/02-online/ckpt/0*") == 130
    (log,) = tmp_path.glob("runs/bench/tiny/near/sde/*.log")
    assert log.read_text().splitlines()[-1].startswith("robo-rl: interrupted; ")  # was not killed
    assert list(bench.kept()) == ["near/default/0.json"]
    status, output = bench.run()
    assert status == 0, output
    assert bench.kept() == undisturbed.kept()
    assert "resumed after an interruption, 2: near: default, sde (seed 0)" in output


def test_a_cell_that_fails_holds_up_no_other(undisturbed: Bench, tmp_path: Path):
    folder = tmp_path / "broken"
    shutil.copytree(undisturbed.folder, folder)
    shutil.rmtree(folder / "benchmarks")
    (policy,) = folder.glob("runs/bench/tiny/near/default/*/01-bc/policy/meta.json")
    policy.write_text("{")
    for report in folder.glob("runs/bench/tiny/near/*/*/02-online/report.json"):
        report.unlink()
    bench = Bench(folder)
    status, output = bench.run()
    assert status == 1
    assert "failed: near default 0: robo-rl: " in output
    assert "01-bc/policy/meta.json" in output
    assert list(bench.kept()) == ["near/sde/0.json"]
    assert "missing, 1: near: default (seed 0)" in output
    assert bench.kept()["near/sde/0.json"] == undisturbed.kept()["near/sde/0.json"]


def test_two_at_one_suite_do_not_meet_in_a_cell(undisturbed: Bench, tmp_path: Path):
    folder = tmp_path / "both"
    shutil.copytree(undisturbed.folder, folder)
    shutil.rmtree(folder / "benchmarks")
    bench = Bench(folder)
    (config,) = folder.glob("runs/bench/tiny/near/sde/*.yaml")
    with lock_file(config.with_suffix(".lock")):
        status, output = bench.run("--method", "sde")
    assert status == 1
    assert "failed: near sde 0: another process is at it" in output
    assert bench.kept() == {}
    status, output = bench.run("--method", "sde")
    assert status == 0, output
    assert list(bench.kept()) == ["near/sde/0.json"]


@pytest.mark.parametrize(("left", "jobs"), [(False, [1]), (True, [1, 2])])
def test_every_sitting_that_did_a_part_of_a_cell_is_kept_with_it(
    undisturbed: Bench, tmp_path: Path, left: bool, jobs: list[int]
):
    folder = tmp_path / "twice"
    shutil.copytree(undisturbed.folder, folder)
    shutil.rmtree(folder / "benchmarks")
    if left:
        (stage,) = folder.glob("runs/bench/tiny/near/sde/*/02-online")
        shutil.rmtree(stage)
    status, output = Bench(folder).run("--method", "sde", "--jobs", "2")
    assert status == 0, output
    found = Bench(folder).kept()["near/sde/0.json"]
    assert [pace["jobs"] for pace in found["sittings"]] == jobs
    assert found["jobs"] == jobs[-1]
    assert ("seconds are not comparable" in output) == left


def test_what_another_process_makes_for_all_is_waited_for(undisturbed: Bench, tmp_path: Path):
    folder = tmp_path / "waits"
    shutil.copytree(undisturbed.folder, folder)
    shutil.rmtree(folder / "benchmarks")
    (report,) = folder.glob("runs/bench/tiny/shared/*/01-bc/report.json")
    hidden = report.rename(report.with_name("hidden"))
    run = report.parents[1]
    with run.with_name(f"{run.name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = Bench(folder).start("--method", "sde")
        assert process.stdout
        until = iter(process.stdout.readline, "")
        assert any("another process is making it, waiting" in line for line in until)
        hidden.rename(report)  # the other one is done
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert "near collect and bc 0: begun" not in output
    assert list(Bench(folder).kept()) == ["near/sde/0.json"]


def test_a_cell_that_another_process_has_finished_is_not_begun(undisturbed: Bench, tmp_path: Path):
    folder = tmp_path / "meanwhile"
    shutil.copytree(undisturbed.folder, folder)
    kept = folder / "benchmarks" / "results" / "tiny"
    other = (kept / "near" / "sde" / "0.json").rename(tmp_path / "finished")
    (kept / "near" / "default" / "0.json").unlink()
    process = Bench(folder).start("--jobs", "1")
    assert process.stdout
    assert any("near default 0: begun" in line for line in iter(process.stdout.readline, ""))
    (kept / "near" / "sde").mkdir(exist_ok=True)
    shutil.copy(other, kept / "near" / "sde" / "0.json")
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert "near sde 0: begun" not in output
    assert "near sde 0: kept by another process meanwhile" in output
