"""A run says which code made it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from robo_rl.config.provenance import git_commit, versions


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
