"""Turns, by identities."""

from __future__ import annotations

import numpy as np
import pytest

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.core.rotations import (
    normalize_quat,
    quat_conj,
    quat_mul,
    quat_to_rotvec,
    rotvec_to_quat,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-6, 0.5, 3.1])
def test_a_turn_survives_the_quaternion(angle: float):
    for axis in RNG.standard_normal((20, 3)):
        turn = angle * axis / np.linalg.norm(axis)
        np.testing.assert_allclose(quat_to_rotvec(rotvec_to_quat(turn)), turn, atol=1e-12)
        np.testing.assert_allclose(quat_to_rotvec(-rotvec_to_quat(turn)), turn, atol=1e-12)


def test_a_quarter_turn_about_x_and_then_about_z_by_hand():
    x, z = rotvec_to_quat(np.array([np.pi / 2, 0, 0])), rotvec_to_quat(np.array([0, 0, np.pi / 2]))
    np.testing.assert_allclose(quat_mul(z, x), [0.5, 0.5, 0.5, 0.5], atol=1e-15)
    np.testing.assert_allclose(quat_mul(z, quat_conj(z)), [1, 0, 0, 0], atol=1e-15)


def test_what_is_nearly_of_unit_length_is_made_so_and_what_is_not_is_refused():
    np.testing.assert_allclose(normalize_quat(np.array([1.005, 0, 0, 0])), [1, 0, 0, 0])
    for quat in ([0.0] * 4, [0.5, 0, 0, 0], [np.nan, 0, 0, 0]):
        with pytest.raises(SpecError, match="no orientation"):
            normalize_quat(np.array(quat))
