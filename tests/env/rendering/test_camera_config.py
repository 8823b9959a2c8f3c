# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import mujoco
import pytest
import torch
from small_cameras import CAMERAS, JITTER, LIGHTS, SCENE, SeenTask

from robo_rl.api.cameras import LightJitter
from robo_rl.config.models import digest
from robo_rl.core.errors import ConfigError
from robo_rl.env.mujoco.cpu_backend import MujocoCpu
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.env.rendering.camera_set import check_lights

ODD = """
  <light name="spot" mode="targetbody" target="cart" pos="0 0 3"/>
  <camera name="wide" fovy="160"/><camera name="plan" fovy="2" projection="orthographic"/>
  <body name="cart\""""


class OddTask(SeenTask):
    """With a light that follows, and cameras that see much."""

    def scene(self):
        return mujoco.MjSpec.from_string(SCENE.replace('<body name="cart"', ODD, 1))


def test_cameras_change_nothing_else(seen):
    blind, sighted = seen(3, cameras=[]), seen(3)
    assert torch.equal(blind.reset(0)["cart"], sighted.reset(0)["cart"])
    act = torch.linspace(-1, 1, 36).view(3, 12, 1)
    for one, other in zip(blind.rollout(act), sighted.rollout(act), strict=True):
        assert torch.equal(one.next_obs["cart"], other.next_obs["cart"])
        assert torch.equal(one.rew, other.rew)


def test_without_cameras_settings_are_as_they_were():
    """What was made before there were cameras keeps its hash."""
    dumped = SimEnv.Config().model_dump(mode="json")
    assert dumped == {"backend": {"name": "mujoco_cpu", "threads": 0}, "randomize": []}
    sighted = SimEnv.Config.model_validate({"cameras": CAMERAS, "lights": LIGHTS})
    assert digest(sighted) != digest(SimEnv.Config())
    assert SimEnv.Config.model_validate(sighted.model_dump(mode="json")) == sighted


@pytest.mark.parametrize(
    ("cameras", "said"),
    [
        ([{"name": "fron"}], "no camera 'fron'; did you mean 'front'"),
        ([{"name": "front", "obs": "cart"}], "two items of the observation are called 'cart'"),
        ([{"name": "front"}, {"name": "front"}], "called 'front_rgb'"),
        ([{"name": "front", "jitter": {"fovy_deg": 50.0}}], "expected below 50"),
        ([{"name": "wide", "jitter": {"fovy_deg": 20.0}}], "expected below 20"),
        ([{"name": "plan", "jitter": {"fovy_deg": 0.1}}], "orthographic camera"),
        ([{"name": "front", "jitter": JITTER}, {"name": "front", "obs": "b"}], "two jitters"),
    ],
)
def test_cameras_that_cannot_be_are_refused(cameras, said):
    cfg = SimEnv.Config.model_validate({"cameras": cameras})
    with pytest.raises(ConfigError, match=said):
        SimEnv(cfg, OddTask(), 2)


def test_lights_that_follow_are_dimmed_but_not_moved():
    model = OddTask().scene().compile()
    check_lights(model, LightJitter(intensity=(0.5, 1.0)))
    for moved in (LightJitter(pos_m=0.1), LightJitter(rotation_deg=1.0)):
        with pytest.raises(ConfigError, match="follows something \\(spot\\)"):
            check_lights(model, moved)


def test_lights_that_are_not_there_are_not_randomised():
    model = mujoco.MjSpec.from_string("<mujoco/>").compile()
    check_lights(model, LightJitter())
    with pytest.raises(ConfigError, match="the scene has no lights"):
        check_lights(model, LightJitter(intensity=(0.5, 1.0)))


def test_a_refused_camera_leaves_no_physics_behind(monkeypatch):
    closed = []
    monkeypatch.setattr(MujocoCpu, "close", lambda backend: closed.append(backend._pool))
    with pytest.raises(ConfigError, match="no camera"):
        SimEnv(SimEnv.Config.model_validate({"cameras": [{"name": "no"}]}), SeenTask(), 2)
    assert closed[-1] is not None


def test_lights_that_nobody_sees_are_refused():
    with pytest.raises(ValueError, match="no camera sees them"):
        SimEnv.Config.model_validate({"lights": LIGHTS})
