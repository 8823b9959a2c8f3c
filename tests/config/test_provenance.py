"""A run says which code made it."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from robo_rl.config import provenance
from robo_rl.config.provenance import describe_processor, git_commit, machine_info, versions


def git(root: Path, *command: str) -> str:
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", "-C", str(root), *name, *command], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_the_commit_and_whether_code_differs_from_it(tmp_path: Path):
    assert git_commit(tmp_path) == ""
    git(tmp_path, "init", "-q")
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "a.yaml").write_text("a: 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    git_commit.cache_clear()
    commit = git(tmp_path, "rev-parse", "--short=12", "HEAD")
    assert git_commit(tmp_path) == commit
    (tmp_path / "notes.txt").write_text("results and notes do not count")
    git_commit.cache_clear()
    assert git_commit(tmp_path) == commit
    (tmp_path / "configs" / "a.yaml").write_text("a: 2\n")
    git_commit.cache_clear()
    assert git_commit(tmp_path) == f"{commit}.dirty"


def test_versions_name_what_is_installed():
    found = versions()
    assert {"python", "torch", "mujoco"} <= found.keys()
    assert found["robo-rl"].split("+")[0].count(".") == 2


@pytest.mark.parametrize(
    ("cpuinfo", "found"),
    [
        (
            "model name\t: Xeon @ 2.60GHz\nflags\t\t: fpu avx2 avx512f\n",
            "x, Xeon @ 2.60GHz, AVX-512",
        ),
        ("model name\t: EPYC\nflags\t\t: fpu avx avx2\n", "x, EPYC, AVX2"),
        ("model name\t: Atom\nflags\t\t: fpu\n", "x, Atom"),
        ("BogoMIPS\t: 50.00\nFeatures\t: fp asimd\n", "x"),
        ("", "x"),
    ],
)
def test_a_processor_is_told_from_another_of_its_architecture(cpuinfo: str, found: str):
    assert describe_processor(cpuinfo, "x") == found


def test_a_machine_names_its_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(provenance, "CPU_INFO", tmp_path / "cpuinfo")
    assert machine_info()["processor"] == platform.machine()
    (tmp_path / "cpuinfo").write_text("model name\t: EPYC\nflags\t: avx2\n")
    assert machine_info()["processor"] == f"{platform.machine()}, EPYC, AVX2"
