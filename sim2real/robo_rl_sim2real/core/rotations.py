"""Turns as quaternions wxyz (4,) and as rotation vectors (3,) in rad."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import SpecError

Array = NDArray[np.float64]

_UNIT = 1e-2
_TINY = 1e-9


def rotvec_to_quat(turn: Array) -> Array:
    """The quaternion of a rotation vector."""
    half = 0.5 * float(np.linalg.norm(turn))
    # sin(x) / x without a division by 0: np.sinc(x) is sin(pi x) / (pi x).
    return np.array([np.cos(half), *(0.5 * np.sinc(half / np.pi) * np.asarray(turn))])


def quat_to_rotvec(quat: Array) -> Array:
    """The rotation vector, of at most half a turn, of a unit quaternion."""
    quat = quat if quat[0] >= 0.0 else -quat
    sine = float(np.linalg.norm(quat[1:]))
    angle = 2.0 * np.arctan2(sine, quat[0])
    return quat[1:] * (angle / sine if sine > _TINY else 2.0)


def quat_mul(left: Array, right: Array) -> Array:
    """First turn by right, then by left."""
    a, u, b, v = left[0], left[1:], right[0], right[1:]
    return np.array([a * b - u @ v, *(a * v + b * u + np.cross(u, v))])


def quat_conj(quat: Array) -> Array:
    """The turn back of a unit quaternion."""
    return np.array([quat[0], *(-quat[1:])])


def normalize_quat(quat: Array) -> Array:
    """A quaternion as somebody sent it, at exactly unit length.

    Raises:
        SpecError: It is not near unit length.
    """
    norm = float(np.linalg.norm(quat))
    if not abs(norm - 1.0) < _UNIT:
        raise SpecError("a quaternion that is no orientation", expected="length 1", found=norm)
    return quat / norm
