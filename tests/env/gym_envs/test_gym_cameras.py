"""Cameras of Gymnasium's MuJoCo envs: a plain renderer's images, only where they are read."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from robo_rl.config.models import digest
from robo_rl.core.errors import ConfigError
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.env.gym_envs.env import GymEnv
from robo_rl.env.rendering.offscreen import opengl_environment
from robo_rl.env.workers.pooled_env import env_seed
from robo_rl.testing.env import check_vec_env

pytest.importorskip("gymnasium")

HOPPER, STEPS = "Hopper-v5", 5
CAMERAS = [{"name": "track", "width": 40, "height": 32}]
ALONE = """
import sys, gymnasium, mujoco, numpy as np
env = gymnasium.make("Hopper-v5")
env.reset(seed=int(sys.argv[1]))
world = env.unwrapped
model, images, ended = world.model, [], []
model.vis.quality.shadowsize = model.vis.quality.offsamples = model.mat_reflectance[:] = 0
model.vis.global_.offwidth, model.vis.global_.offheight = 40, 32
data = mujoco.MjData(model)
with mujoco.Renderer(model, 32, 40) as renderer:
    for act in np.load(sys.argv[2]):
        ended.append(any(env.step(act)[2:4]))
        data.qpos[:] = world.data.qpos
        mujoco.mj_forward(model, data)
        renderer.update_scene(data, "track")
        images.append(renderer.render().transpose(2, 0, 1))
        if ended[-1]:
            break
np.savez(sys.argv[3], images=np.stack(images), ended=ended)
"""


@pytest.fixture
def hopper(opengl):
    """Makes hoppers with a camera, and closes them."""
    made = []

    def make(num_envs=2, **fields):
        fields = {"id": HOPPER, "workers": 2, "cameras": CAMERAS, **fields}
        made.append(GymEnv(GymEnv.Config.model_validate(fields), num_envs))
        return made[-1]

    yield make
    for env in made:
        env.close()


def test_conforms(hopper):
    check_vec_env(lambda num_envs: hopper(num_envs, max_episode_steps=30))


@pytest.mark.slow
def test_images_are_those_of_one_renderer(hopper, opengl, tmp_path):
    env = hopper()
    env.reset(3)
    act = 2.0 * torch.rand(2, 60, 3, generator=torch.Generator().manual_seed(0)) - 1.0
    steps = env.rollout(act)
    for b in range(2):
        np.save(tmp_path / "act.npy", act[b].numpy())
        files = [str(tmp_path / name) for name in ("act.npy", "found.npz")]
        command = [sys.executable, "-c", ALONE, str(env_seed(3, b)), *files]
        subprocess.run(command, env=opengl_environment(opengl), check=True)
        found = np.load(tmp_path / "found.npz")
        assert found["ended"][-1]  # a random hopper falls
        for t, image in enumerate(found["images"]):
            assert np.array_equal(steps[t].next_obs["track_rgb"][b].numpy(), image)


def test_a_chunk_shows_its_last_frame_and_that_of_an_end(hopper):
    act = torch.rand(2, 40, 3, generator=torch.Generator().manual_seed(0))
    some, every = hopper(), hopper()
    some.reset(3)
    every.reset(3)
    ends = 0
    for begin in range(0, 40, STEPS):
        part = act[:, begin : begin + STEPS]
        one, whole = some.rollout(part, frames=1), every.rollout(part)
        valid = torch.stack([step.valid for step in whole])
        for b, last in enumerate((valid.sum(0) - 1).tolist()):
            left, right = one[last].next_obs["track_rgb"], whole[last].next_obs["track_rgb"]
            assert torch.equal(left[b], right[b])
        assert torch.equal(one[-1].obs["track_rgb"], whole[-1].obs["track_rgb"])
        ends += int((~valid).sum())
    assert ends > 0


@pytest.mark.slow
def test_a_history_of_two_frames_is_that_of_steps(hopper):
    chunked = ChunkEnv(hopper(), obs_horizon=2, exec_horizon=3, gamma=1.0)
    single = ChunkEnv(hopper(), obs_horizon=2, exec_horizon=1, gamma=1.0)
    chunked.reset(0)
    single.reset(0)
    act = torch.zeros(2, 3, 3)
    now = chunked.step(act).obs["track_rgb"]
    for t in range(3):
        then = single.step(act[:, t : t + 1]).obs["track_rgb"]
    assert torch.equal(now, then)


def test_bad_cameras_are_one_line(hopper, make, opengl):
    with pytest.raises(ConfigError, match=r"no camera 'trak'.*did you mean 'track'"):
        hopper(cameras=[{"name": "trak"}])
    with pytest.raises(ConfigError, match="has no jitter"):
        hopper(cameras=[{"name": "track", "jitter": {"pos_m": 0.1}}])
    with pytest.raises(ConfigError, match="two items of the observation are called 'state'"):
        hopper(cameras=[{"name": "track", "obs": "state"}])
    with pytest.raises(ConfigError, match="does not run on MuJoCo"):
        make(cameras=[{"name": "track"}])


def test_without_cameras_a_config_keeps_its_hash():
    """Every key of it is hashed, so that a new one would make other worlds of kept results."""
    assert GymEnv.Config(id=HOPPER).model_dump(mode="json") == {
        **{"workers": 0, "step_timeout_s": 30.0, "start_timeout_s": 120.0},
        **{"id": HOPPER, "kwargs": {}, "max_episode_steps": None, "import_module": ""},
    }
    seen = GymEnv.Config.model_validate({"id": HOPPER, "cameras": CAMERAS})
    assert digest(seen) != digest(GymEnv.Config(id=HOPPER))
