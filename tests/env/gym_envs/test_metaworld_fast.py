"""What is left out of Meta-World's classes does not show: the same numbers, to the bit."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("metaworld", reason="Meta-World is not installed")

PROGRAM = Path(__file__).parent / "metaworld_course.py"
# The tasks in development; with stick-push success depends on who touches what.
SOME = (
    "reach-v3",
    "push-v3",
    "drawer-open-v3",
    "door-open-v3",
    "button-press-topdown-v3",
    "peg-insert-side-v3",
    "stick-push-v3",
)


def play(tmp_path, tasks):
    """Task → rows of the original, and of the changed classes; two processes at once."""
    flags = {"original": [], "quick": ["--quick"]}
    running = [
        subprocess.Popen([sys.executable, PROGRAM, *flag, tmp_path / f"{name}.npz", *tasks])
        for name, flag in flags.items()
    ]
    assert [process.wait() for process in running] == [0, 0]
    return [rows_of(tmp_path / f"{name}.npz") for name in flags]


def rows_of(file):
    """Task → its rows, in order, as they were written."""
    found = defaultdict(list)
    with np.load(file) as stored:
        for name, row in stored.items():
            found[name.partition("/")[0]].append(row)
    return found


def assert_equal(original, quick):
    for task, rows in original.items():
        for step, (expected, found) in enumerate(zip(rows, quick[task], strict=True)):
            assert expected.tobytes() == found.tobytes(), (
                f"{task} differs in row {step} at {np.flatnonzero(expected != found)}"
            )


def test_the_numbers_are_those_of_the_original(tmp_path):
    original, quick = play(tmp_path, SOME)
    assert_equal(original, quick)
    touched = np.stack(original["stick-push-v3"][1:91])[:, 39:47]
    assert touched[:, 2].max() == 1.0, "nothing was grasped, so that forces were not compared"


@pytest.mark.slow
def test_the_numbers_of_every_task_are_those_of_the_original(tmp_path):
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS

    assert_equal(*play(tmp_path, list(ALL_V3_ENVIRONMENTS)))


def test_quaternions_are_scipys_to_the_bit():
    from scipy.spatial.transform import Rotation

    from robo_rl.env.gym_envs.metaworld_fast_math import RotationMatrix

    rng = np.random.default_rng(1)
    turns = np.vstack([rng.standard_normal((200, 4)), np.eye(4), [[1, 1, 1, 1], [1, -1, 0, 0]]])
    for matrix in Rotation.from_quat(turns).as_matrix():
        expected = Rotation.from_matrix(matrix).as_quat()
        assert (RotationMatrix.from_matrix(matrix).as_quat() == expected).all()


@pytest.mark.parametrize("sigmoid", ["gaussian", "long_tail", "hyperbolic", "linear"])
def test_tolerances_are_the_originals_to_the_bit(sigmoid):
    from metaworld.utils import reward_utils

    from robo_rl.env.gym_envs.metaworld_fast_math import tolerance

    rng = np.random.default_rng(2)
    for x, low, width, margin in rng.standard_normal((300, 4)):
        args = (x, (low, low + abs(width)), max(margin, 0.0), sigmoid)
        assert tolerance(*args) == reward_utils.tolerance(*args)
    row = rng.standard_normal(5)
    args = (row, (0.0, 0.5), 0.3, sigmoid)
    assert (tolerance(*args) == reward_utils.tolerance(*args)).all()
    with pytest.raises(ValueError, match="margin"):
        tolerance(0.5, (0.0, 0.1), -1.0)
    with pytest.raises(ValueError, match="bound"):
        tolerance(0.5, (0.2, 0.1), 1.0)
