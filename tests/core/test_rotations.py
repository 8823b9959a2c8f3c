"""Rotations, by hand and by identities, of tensors and of arrays of numpy."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from robo_rl.core import rotations
from robo_rl.core.errors import SpecError


@pytest.fixture(params=[torch.from_numpy, np.asarray], ids=["torch", "numpy"])
def kind(request):
    """What makes a batch of an array of numpy: a tensor, or the array as it is."""
    return request.param


@pytest.fixture
def quats(kind):
    quat = np.random.default_rng(0).standard_normal((50, 4))
    return kind(quat / np.linalg.norm(quat, axis=-1, keepdims=True))


def check(found, expected, atol: float = 1e-12):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), atol=atol)


def test_a_turn_and_its_inverse_cancel(quats):
    unit = rotations.quat_mul(quats, rotations.quat_conj(quats))
    check(unit, np.tile([1.0, 0, 0, 0], (50, 1)))


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-6, 0.5, 3.1])
def test_a_turn_survives_the_quaternion_and_the_matrix(kind, angle: float):
    axis = np.random.default_rng(1).standard_normal((50, 3))
    turn = kind(angle * axis / np.linalg.norm(axis, axis=-1, keepdims=True))
    quat = rotations.rotvec_to_quat(turn)
    for either in (quat, -quat):
        check(rotations.quat_to_rotvec(either), turn)
        check(rotations.matrix_to_rotvec(rotations.quat_to_matrix(either)), turn, atol=1e-9)


def test_the_matrix_turns_as_the_quaternion_does(quats):
    rot = np.asarray(rotations.quat_to_matrix(quats))
    check(rot @ rot.swapaxes(-1, -2), np.tile(np.eye(3), (50, 1, 1)))
    check(np.linalg.det(rot), np.ones(50))
    point = np.array([0.3, -0.2, 0.7])
    pure = np.tile([0.0, *point], (50, 1))
    pure = pure if isinstance(quats, np.ndarray) else torch.from_numpy(pure)
    turned = rotations.quat_mul(rotations.quat_mul(quats, pure), rotations.quat_conj(quats))
    check(rot @ point, np.asarray(turned)[:, 1:])


def test_rot6d_is_the_first_two_columns_and_the_same_for_both_signs(quats):
    rot6d = np.asarray(rotations.quat_to_rot6d(quats))
    rot = np.asarray(rotations.quat_to_matrix(quats))
    np.testing.assert_array_equal(rot6d, np.concatenate([rot[..., 0], rot[..., 1]], axis=-1))
    check(rotations.quat_to_rot6d(-quats), rot6d)


def test_a_quarter_turn_by_hand(kind):
    # x goes to y, y goes to -x.
    quarter = rotations.yaw_to_quat(kind(np.array([math.pi / 2])))
    check(rotations.quat_to_rot6d(quarter), [[0, 1, 0, -1, 0, 0]])
    about_x = rotations.rotvec_to_quat(kind(np.array([[math.pi / 2, 0, 0]])))
    check(rotations.quat_mul(quarter, about_x), [[0.5, 0.5, 0.5, 0.5]])


def test_yaw_survives_the_quaternion_and_adds_up(kind):
    yaw = kind(np.linspace(-3.1, 3.1, 9))
    quat = rotations.yaw_to_quat(yaw)
    check(rotations.quat_to_yaw(quat), yaw)
    twice = rotations.quat_mul(rotations.yaw_to_quat(yaw / 2), rotations.yaw_to_quat(yaw / 2))
    check(twice, quat)


def test_tensors_and_arrays_give_the_same_numbers():
    quat = np.random.default_rng(2).standard_normal((2, 50, 4))
    tensors = [torch.from_numpy(each) for each in quat]
    check(rotations.quat_mul(*quat), rotations.quat_mul(*tensors), atol=1e-15)
    check(rotations.quat_to_rot6d(quat[0]), rotations.quat_to_rot6d(tensors[0]), atol=1e-15)


def test_what_is_nearly_of_unit_length_is_made_so_and_what_is_not_is_refused():
    check(rotations.unit_quat(np.array([1.005, 0, 0, 0])), [1, 0, 0, 0])
    for quat in ([0.0] * 4, [0.5, 0, 0, 0], [np.nan, 0, 0, 0]):
        with pytest.raises(SpecError, match="no orientation"):
            rotations.unit_quat(np.array(quat))


def test_an_array_and_its_inverse_leave_exactly_nothing():
    quat = np.random.default_rng(3).standard_normal((50, 4))
    vector = rotations.quat_mul(quat, rotations.quat_conj(quat))[:, 1:]
    np.testing.assert_array_equal(vector, np.zeros((50, 3)))


def test_arrays_need_no_torch():
    code = "import sys, numpy as np; from robo_rl.core.rotations import rotvec_to_quat as f"
    code += "\nf(np.ones(3)); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_turn_is_about_fixed_axes_and_is_found_again(kind):
    """A quarter turn about x, then one about the fixed y: x goes to −z, y to x."""
    quarter = math.pi / 2
    first, then = kind(np.array([[quarter, 0, 0]])), kind(np.array([[0, quarter, 0]]))
    both = rotations.turn_rotvec(first, then)
    matrix = rotations.quat_to_matrix(rotations.rotvec_to_quat(both))[0]
    check(matrix, [[0, 1, 0], [0, 0, -1], [-1, 0, 0]])
    check(rotations.turn_between(first, both), then)


def test_small_turns_are_small_changes_beyond_half_a_turn(kind):
    start, turn = kind(np.array([[3.09, 0, 0]])), kind(np.array([[0.07, 0, 0]]))
    for sign in (1.0, -1.0):
        turned = rotations.turn_rotvec(sign * start, sign * turn)
        check(turned, [[sign * (3.16 - 2 * math.pi), 0, 0]])
        check(rotations.nearest_rotvec(turned, sign * start), [[sign * 3.16, 0, 0]])
    check(rotations.nearest_rotvec(turn, start), turn)
    check(rotations.nearest_rotvec(0 * turn, start), [[0, 0, 0]])
