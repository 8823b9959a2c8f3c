# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import math

import mujoco
import pytest
import torch
from small_cameras import SCENE

from robo_rl.api.cameras import CameraSettings
from robo_rl.core.errors import ConfigError
from robo_rl.env.rendering.appearance import Appearance
from robo_rl.env.rendering.camera_set import check_cameras

NUM = 64


def looks(jitter=None, lights=None):
    camera = {"name": "front", "jitter": jitter or {}}
    cfg = CameraSettings.model_validate({"cameras": [camera], "lights": lights or {}})
    model = mujoco.MjModel.from_xml_string(SCENE)
    return model, Appearance(model, cfg, ["body_mass", "geom_rgba"], NUM, torch.device("cpu"))


def drawn(made, seed=0):
    fields = {"body_mass": torch.ones(NUM, 3)}
    generator = torch.Generator().manual_seed(seed)
    made.restart(torch.arange(NUM), {"mark": torch.zeros(NUM, 3)}, fields, generator)
    return made.now


def test_only_what_can_be_seen_and_is_drawn_is_a_look():
    _, made = looks()
    assert set(made.now) == {"geom_rgba", "mocap_pos", "mocap_quat"}


def test_a_camera_stays_within_its_jitter_and_others_stay():
    model, made = looks({"pos_m": 0.1, "rotation_deg": 10.0, "fovy_deg": 2.0})
    now = drawn(made)
    offset = now["cam_pos"][:, 0] - torch.from_numpy(model.cam_pos[0])
    assert 0.08 < float(offset.abs().max()) <= 0.1
    fovy = now["cam_fovy"][:, 0] - 50.0
    assert 1.5 < float(fovy.abs().max()) <= 2.0
    quat = now["cam_quat"][:, 0]
    assert torch.allclose(quat.norm(dim=1), torch.ones(NUM, dtype=torch.float64))
    angle = 2 * (quat @ torch.from_numpy(model.cam_quat[0])).abs().clamp(max=1).acos()
    assert math.radians(10) < float(angle.max()) <= math.radians(10) * math.sqrt(3)
    for name in ("cam_pos", "cam_quat", "cam_fovy"):
        assert torch.equal(now[name][0, 1:], torch.from_numpy(getattr(model, name)[1:]))


def test_a_light_is_moved_turned_and_dimmed():
    model, made = looks(lights={"pos_m": 0.2, "rotation_deg": 30.0, "intensity": [0.5, 0.7]})
    now = drawn(made)
    offset = now["light_pos"][:, 0] - torch.from_numpy(model.light_pos[0])
    assert 0.15 < float(offset.abs().max()) <= 0.2
    before = torch.from_numpy(model.light_dir[0]).expand(NUM, 3)
    angle = torch.cosine_similarity(now["light_dir"][:, 0], before).clamp(max=1.0).acos()
    assert math.radians(20) < float(angle.max()) <= math.radians(30) * math.sqrt(3)
    length = now["light_dir"][:, 0].norm(dim=1)
    expected = float(torch.from_numpy(model.light_dir[0]).norm())
    assert torch.allclose(length, torch.full_like(length, expected))
    share = now["light_diffuse"][:, 0] / torch.from_numpy(model.light_diffuse[0])
    assert 0.5 <= float(share.min()) < float(share.max()) <= 0.7
    assert torch.allclose(share[:, 0], share[:, 2])


def test_a_quarter_turn_is_one(monkeypatch):
    """About z it takes x to y, and two of them are half a turn."""
    quarter = torch.tensor([0.0, 0.0, math.pi / 2], dtype=torch.float64)
    monkeypatch.setattr(
        "robo_rl.env.rendering.appearance._within", lambda *_: quarter.repeat(NUM, 1)
    )
    from robo_rl.core.rotations import quat_mul
    from robo_rl.env.rendering.appearance import _rotated, _turned

    turn = _turned(90.0, NUM, torch.Generator())
    right = torch.tensor([[1.0, 0.0, 0.0]]).double().repeat(NUM, 1)
    up = torch.tensor([[0.0, 1.0, 0.0]]).double().repeat(NUM, 1)
    assert torch.allclose(_rotated(right, turn), up)
    half = torch.tensor([0.0, 0.0, 0.0, 1.0]).double().repeat(NUM, 1)
    assert torch.allclose(quat_mul(turn, turn), half, atol=1e-12)


def test_the_same_seed_draws_the_same():
    _, one = looks({"pos_m": 0.1}, {"pos_m": 0.1})
    _, other = looks({"pos_m": 0.1}, {"pos_m": 0.1})
    assert torch.equal(drawn(one)["cam_pos"], drawn(other)["cam_pos"])
    assert not torch.equal(drawn(one)["cam_pos"].clone(), drawn(one, 1)["cam_pos"])


@pytest.mark.parametrize("mode", ["track", "trackcom"])
def test_a_camera_that_follows_has_no_jitter(mode):
    follows = SCENE.replace('camera name="aboard"', f'camera name="aboard" mode="{mode}"')
    camera = {"name": "aboard", "jitter": {"pos_m": 0.1}}
    cfg = CameraSettings.model_validate({"cameras": [camera]})
    with pytest.raises(ConfigError, match="follows something"):
        check_cameras(mujoco.MjModel.from_xml_string(follows), cfg.cameras)
