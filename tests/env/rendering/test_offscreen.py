# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import mujoco
import numpy as np
from small_cameras import SCENE

from robo_rl.env.rendering.offscreen import mocap_markers


def test_markers_of_quaternions_and_poses():
    model = mujoco.MjModel.from_xml_string(SCENE)
    pos, quat = mocap_markers(model, {}, 2)
    assert pos.tolist() == [[[0, 0, 0.5]]] * 2
    pose = np.array([[1.0, 2, 3, 0, 1, 0, 0]])
    pos, quat = mocap_markers(model, {"mark": pose, "other": pose}, 1)
    assert pos.tolist() == [[[1, 2, 3]]]
    assert quat.tolist() == [[[0, 1, 0, 0]]]
    pos, quat = mocap_markers(model, {"mark": pose[:, 3:]}, 1)
    assert pos.tolist() == [[[0, 0, 0.5]]]
    assert quat.tolist() == [[[0, 1, 0, 0]]]
