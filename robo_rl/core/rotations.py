"""Rotations on batches: quaternions, rotation vectors, matrices and yaw; torch or numpy.

Shapes: … any batch axes. Quaternions are wxyz and of unit length; rotation vectors and yaw, the
angle about the world's z axis, are in rad. Numpy arguments give numpy arrays without an import
of torch; tensors give tensors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from robo_rl.core.errors import SpecError

ArrayT = TypeVar("ArrayT")
"""A torch tensor or a numpy array."""

_TINY = 1e-9
_TINY_SINE = 1e-6
_LENGTH_TOLERANCE = 1e-2


def quat_mul(left: ArrayT, right: ArrayT) -> ArrayT:
    """Return the Hamilton product of quaternions (…, 4): first rotate by right, then by left.

    The order of summation differs by library. With numpy, the product of a quaternion and its
    inverse has a vector part of exactly 0, so that a robot commanded to stay has no velocity.
    With torch, the order is the one that trained weights depend on.
    """
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return _array_mul(left, right)
    (a, b, c, d), (e, f, g, h) = _parts(left), _parts(right)
    parts = [
        a * e - b * f - c * g - d * h,
        a * f + b * e + c * h - d * g,
        a * g - b * h + c * e + d * f,
        a * h + b * g - c * f + d * e,
    ]
    return _library(left).stack(parts, axis=-1)


def quat_conj(quat: ArrayT) -> ArrayT:
    """Return the inverse rotation of unit quaternions (…, 4)."""
    scalar, vector = _split(quat)
    return _library(quat).concatenate([scalar, -vector], axis=-1)


def rotvec_to_quat(turn: ArrayT) -> ArrayT:
    """Return the quaternion (…, 4) of a rotation vector (…, 3)."""
    lib, vector = _library(turn), _any(turn)
    half = _norm(vector) / 2
    # sin(x) / x without a division by 0: sinc(x) is sin(pi x) / (pi x).
    return lib.concatenate([lib.cos(half), vector / 2 * lib.sinc(half / np.pi)], axis=-1)


def quat_to_rotvec(quat: ArrayT) -> ArrayT:
    """Return the rotation vector (…, 3), of length at most π, of a unit quaternion (…, 4)."""
    lib, either = _library(quat), _any(quat)
    scalar, vector = _split(lib.where(either[..., :1] < 0, -either, either))
    sine = _norm(vector)
    angle = 2 * lib.arctan2(sine, scalar)
    return vector * lib.where(sine > _TINY, angle / lib.where(sine > _TINY, sine, _TINY), 2.0)


def turn_rotvec(rotvec: ArrayT, turn: ArrayT) -> ArrayT:
    """Return the rotation (…, 3) that first rotates by ``rotvec``, then by ``turn`` (…, 3).

    Both are rotation vectors in the fixed frame: exp(result) = exp(turn) exp(rotvec).
    """
    return quat_to_rotvec(quat_mul(rotvec_to_quat(turn), rotvec_to_quat(rotvec)))


def nearest_rotvec(rotvec: ArrayT, to: ArrayT) -> ArrayT:
    """Return the rotation vector (…, 3) of the same rotation that is nearest to another (…, 3).

    Every rotation has a second vector, of a length of 2π less the first, the other way. With the
    nearest one, a target that turns on beyond π changes a little, and not by a whole turn.

    Args:
        rotvec: Rotation vectors (…, 3) of length at most π.
        to: Rotation vectors (…, 3) of length at most 2π.
    """
    lib, short, other = _library(rotvec), _any(rotvec), _any(to)
    angle = _norm(short)
    turns = angle > _TINY
    long = short * (1.0 - 2.0 * np.pi / lib.where(turns, angle, 1.0))
    nearer = turns & (_norm(long - other) < _norm(short - other))
    return lib.where(nearer, long, short)


def turn_between(before: ArrayT, after: ArrayT) -> ArrayT:
    """Return the turn (…, 3) for which ``turn_rotvec(before, turn)`` is ``after`` (…, 3)."""
    return quat_to_rotvec(quat_mul(rotvec_to_quat(after), quat_conj(rotvec_to_quat(before))))


def quat_to_matrix(quat: ArrayT) -> ArrayT:
    """Return the rotation matrix (…, 3, 3) of a unit quaternion (…, 4)."""
    lib = _library(quat)
    return lib.stack([lib.stack(column, axis=-1) for column in _columns(quat)], axis=-1)


def quat_to_rot6d(quat: ArrayT) -> ArrayT:
    """Return the first two columns of the rotation matrix, (…, 6).

    The representation is continuous, and the same for q and -q.

    Source: Zhou et al., "On the Continuity of Rotation Representations in Neural Networks", 2019
    (arXiv 1812.07035), eq. 17.
    """
    columns = _columns(quat)
    return _library(quat).stack(next(columns) + next(columns), axis=-1)


def matrix_to_rotvec(rot: ArrayT) -> ArrayT:
    """Return the rotation vector (…, 3) of a rotation matrix (…, 3, 3) of an angle below π."""
    lib, matrix = _library(rot), _any(rot)
    skew = (matrix - lib.swapaxes(matrix, -1, -2)) / 2
    axis = lib.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], axis=-1)
    sine = _norm(axis)
    trace = matrix[..., 0, 0] + matrix[..., 1, 1] + matrix[..., 2, 2]
    angle = lib.arctan2(sine, (trace[..., None] - 1) / 2)
    near_zero = sine <= _TINY_SINE
    return axis * lib.where(near_zero, 1.0, angle / lib.where(near_zero, _TINY_SINE, sine))


def yaw_to_quat(yaw: ArrayT) -> ArrayT:
    """Return the quaternion (…, 4) of a rotation about z by yaw (…,)."""
    lib, half = _library(yaw), _any(yaw) / 2
    zero = lib.zeros_like(half)
    return lib.stack([lib.cos(half), zero, zero, lib.sin(half)], axis=-1)


def quat_to_yaw(quat: ArrayT) -> ArrayT:
    """Return the yaw (…,) of the body's x axis from the body's quaternion (…, 4)."""
    w, x, y, z = _parts(quat)
    return _library(quat).arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def unit_quat(quat: ArrayT) -> ArrayT:
    """Return a quaternion (4,) from a message, normalised to unit length.

    Raises:
        SpecError: The length is not near 1.
    """
    norm = _norm(_any(quat))
    if not abs(float(norm[0]) - 1.0) < _LENGTH_TOLERANCE:
        raise SpecError(
            "a quaternion that is no orientation", expected="length 1", found=float(norm[0])
        )
    return _any(quat) / norm


def _array_mul(left: Any, right: Any) -> Any:
    """Return (a·b − u·v, a·v + b·u + u × v), the product of quaternions (a, u) and (b, v)."""
    (a, u), (b, v) = _split(left), _split(right)
    scalar = a * b - (u * v).sum(-1, keepdims=True)
    return np.concatenate([scalar, a * v + b * u + np.cross(u, v)], axis=-1)


def _library(array: object) -> Any:
    """Return the library of this array: numpy, or torch."""
    return np if isinstance(array, np.ndarray) else sys.modules["torch"]


def _norm(vector: Any) -> Any:
    """Return the Euclidean norm, (…, n) → (…, 1)."""
    return _library(vector).linalg.norm(vector, axis=-1, keepdims=True)


def _columns(quat: Any) -> Iterator[list[Any]]:
    """Yield the columns of the rotation matrix, each as its three elements (…,)."""
    w, x, y, z = _parts(quat)
    yield [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)]
    yield [2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)]
    yield [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)]


def _parts(array: Any) -> Any:
    """Return the elements of the last axis, (…,) each."""
    return np.moveaxis(array, -1, 0) if isinstance(array, np.ndarray) else array.unbind(-1)


def _split(quat: Any) -> tuple[Any, Any]:
    """Return the scalar (…, 1) and the vector (…, 3) part."""
    return quat[..., :1], quat[..., 1:]


def _any(array: object) -> Any:
    """Return the same array, typed Any; torch and numpy share no type with operators."""
    return array
