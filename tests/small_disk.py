"""A disk that is soon full."""

import contextlib
import subprocess

import pytest


@contextlib.contextmanager
def mount_small_disk(path):
    """Mount an empty disk of 1 MiB at ``path``; the test is skipped where that is not permitted."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, check=False).returncode
    except FileNotFoundError:
        done = 1
    if done:
        pytest.skip("mounting a small disk is not permitted here")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)
