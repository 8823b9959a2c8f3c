from __future__ import annotations

import pytest
import torch
from small_cameras import CAMERAS, SeenTask

pytest.importorskip("mujoco_warp", reason="the extra 'warp' is not installed")

from robo_rl.core.errors import ConfigError, DeviceError
from robo_rl.env.mujoco.sim_env import SimEnv

WARP = {"name": "mujoco_warp", "device": "cpu"}
JITTER = {"pos_m": 0.05, "rotation_deg": 4.0, "fovy_deg": 5.0}
SHAKY = {
    "cameras": [{**each, "jitter": JITTER} for each in CAMERAS],
    "lights": {"pos_m": 0.5, "rotation_deg": 20.0, "intensity": [0.3, 1.2]},
}
BOUND = 4.0
"""Mean difference to OpenGL's, of 255: edges by half a pixel, other rounding of light."""


def make(backend=WARP, num_envs=3, steps=10, **settings):
    fields = {"cameras": CAMERAS, "backend": backend, **settings}
    return SimEnv(SimEnv.Config.model_validate(fields), SeenTask(steps=steps), num_envs)


@pytest.fixture(scope="module")
def lasting():
    env = make(**SHAKY)
    yield env
    env.close()


def gap(left, right):
    return float((left.float() - right.float()).abs().mean())


def test_pictures_are_near_those_of_opengl(lasting, opengl):
    pool = make("mujoco_cpu", **SHAKY)
    ours, theirs = lasting.reset(3), pool.reset(3)
    pool.close()
    for camera in CAMERAS:
        name = camera.get("obs", "front_rgb")
        assert ours[name].dtype == torch.uint8
        assert gap(ours[name], theirs[name]) < BOUND
        for i in range(3):
            assert gap(ours[name][i], theirs[name][i]) < gap(ours[name][i], theirs[name][i - 1])


def test_next_obs_shows_the_successor_and_a_restore_the_same_picture(lasting):
    lasting.reset(1)
    snapshot = lasting.snapshot()
    steps = lasting.rollout(torch.ones(3, 10, 1))
    last = steps[-1]
    assert last.truncated.all()
    assert not torch.equal(last.obs["map"], last.next_obs["map"])
    assert torch.equal(steps[0].obs["map"], steps[0].next_obs["map"])
    lasting.restore(snapshot)
    again = lasting.rollout(torch.ones(3, 10, 1))
    for one, other in zip(steps, again, strict=True):
        for name in ("front_rgb", "map"):
            assert torch.equal(one.next_obs[name], other.next_obs[name])
            assert torch.equal(one.obs[name], other.obs[name])


def test_one_world_that_begins_anew_leaves_the_others_pictures(lasting):
    lasting.reset(2)
    obs = lasting.rollout(torch.zeros(3, 1, 1))[0].obs
    cameras, view = lasting._cameras, lasting.view
    rows = torch.tensor([2, 0])
    some = cameras.start(view.qpos[rows], rows)()
    for name in ("front_rgb", "map"):
        assert torch.equal(some[name], obs[name][rows])


def test_a_camera_is_named_once():
    twice = [{"name": "front"}, {"name": "front", "obs": "again"}]
    with pytest.raises(ConfigError, match="draws camera 'front' once only"):
        make(cameras=twice)


def test_closed_is_closed():
    env = make(num_envs=1)
    assert env._cameras is not None
    renderer = env._cameras._renderer
    env.close()
    env.close()
    with pytest.raises(DeviceError, match="is closed"):
        renderer.start(torch.zeros(1, 1), {})
