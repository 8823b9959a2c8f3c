"""Scalar versions of two functions that dominate Meta-World's rewards and observations.

Their results are bit-identical to those of the original functions.
"""

from __future__ import annotations

import math
import sys
from functools import cache
from typing import Any

import numpy as np
from metaworld.utils import reward_utils as _reward_utils
from scipy.spatial.transform import Rotation as _Rotation

reward_utils: Any = _reward_utils
Rotation: Any = _Rotation
_original_tolerance = reward_utils.tolerance


def use_fast_math(module: str) -> None:
    """Make a module of Meta-World, and its users, call the functions of this module."""
    reward_utils.tolerance = tolerance
    if getattr(sys.modules[module], "Rotation", None) is Rotation and _quat_is_exact():
        setattr(sys.modules[module], "Rotation", RotationMatrix)  # noqa: B010


def tolerance(
    x: Any,
    bounds: tuple[float, float] = (0.0, 0.0),
    margin: Any = 0.0,
    sigmoid: Any = "gaussian",
    value_at_margin: float = 0.1,
) -> Any:
    """Return ``reward_utils.tolerance``: 1 within the bounds, a sigmoid of the distance outside."""
    lower, upper = bounds
    if not isinstance(x, float) or lower > upper or not margin >= 0:
        return _original_tolerance(x, bounds, margin, sigmoid, value_at_margin)
    if lower <= x <= upper:
        return 1.0
    if margin == 0:
        return 0.0
    distance = (lower - x if x < lower else x - upper) / margin
    return float(reward_utils._sigmoids(np.float64(distance), value_at_margin, sigmoid))


class RotationMatrix:
    """Replaces scipy's ``Rotation``, which Meta-World uses only for quaternions.

    Args:
        matrix: (3, 3), a rotation matrix; not verified.
    """

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix

    @classmethod
    def from_matrix(cls, matrix: Any) -> RotationMatrix:
        """Return the rotation of a matrix, as ``Rotation.from_matrix`` does."""
        return cls(matrix)

    def as_quat(self) -> Any:
        """Return the quaternion (4,) xyzw: the row of 4 q qᵀ with the largest diagonal, normalised.

        Source: Markley, Unit quaternion from rotation matrix, Journal of Guidance, Control, and
        Dynamics 31 (2008) 440–442.
        """
        m = self._matrix.tolist()
        diagonal = [m[0][0], m[1][1], m[2][2]]
        trace = diagonal[0] + diagonal[1] + diagonal[2]
        if trace >= max(diagonal):
            row = [m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1], 1.0 + trace]
        else:
            i = diagonal.index(max(diagonal))
            j, k = (i + 1) % 3, (i + 2) % 3
            row = [0.0, 0.0, 0.0, m[k][j] - m[j][k]]
            row[i] = 1.0 - trace + 2.0 * m[i][i]
            row[j], row[k] = m[j][i] + m[i][j], m[k][i] + m[i][k]
        x, y, z, w = row
        norm = math.sqrt(x * x + y * y + z * z + w * w)
        return np.array([x / norm, y / norm, z / norm, w / norm])


@cache
def _quat_is_exact() -> bool:
    """Return whether results equal scipy's to the bit; compilers may fuse operations."""
    rng = np.random.default_rng(0)
    matrices = Rotation.from_quat(rng.standard_normal((64, 4))).as_matrix()
    ours = np.stack([RotationMatrix(matrix).as_quat() for matrix in matrices])
    return bool((ours == np.stack([Rotation.from_matrix(m).as_quat() for m in matrices])).all())
