from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch
from small_cameras import ITEMS, LIGHTS, SCENE, SHAKY, SeenTask, differ, same, still

from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.env.latency_env import LatencyEnv
from robo_rl.env.rendering.offscreen import opengl_environment
from robo_rl.testing.env import check_branchable, check_vec_env

ALONE = """
import sys, mujoco, numpy as np
model = mujoco.MjModel.from_xml_path(sys.argv[1])
model.vis.quality.shadowsize = model.vis.quality.offsamples = 0
data, states = mujoco.MjData(model), np.load(sys.argv[2])
pictures = {}
for item, camera, width, height in (("front_rgb", "front", 48, 32), ("map", "above", 32, 32)):
    with mujoco.Renderer(model, height, width) as renderer:
        pictures[item] = []
        for qpos, mark in zip(states["qpos"], states["mark"]):
            data.qpos[:], data.mocap_pos[0] = qpos, mark
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera)
            pictures[item].append(renderer.render().transpose(2, 0, 1))
np.savez(sys.argv[3], **pictures)
"""


def test_conforms(seen):
    check_vec_env(lambda n: seen(n, cameras=SHAKY, lights=LIGHTS, end_m=0.45))


def test_snapshots_are_exact(seen):
    check_branchable(lambda n: seen(n, cameras=SHAKY, lights=LIGHTS, end_m=0.45))


def test_pictures_are_those_of_one_renderer_to_the_bit(seen, opengl, tmp_path):
    env = seen(5, workers=2)
    env.reset(0)
    obs = still(env)[0].obs
    (tmp_path / "scene.xml").write_text(SCENE)
    goal = env.view.goal["mark"].double()
    np.savez(tmp_path / "states.npz", qpos=env.view.qpos.numpy(), mark=goal.numpy())
    files = [str(tmp_path / name) for name in ("scene.xml", "states.npz", "pictures.npz")]
    subprocess.run(
        [sys.executable, "-c", ALONE, *files], env=opengl_environment(opengl), check=True
    )
    alone = np.load(tmp_path / "pictures.npz")
    for name in ITEMS:
        assert np.array_equal(alone[name], obs[name].numpy())
        assert differ(obs[name])


def test_next_obs_shows_the_true_successor_and_obs_the_new_start(seen):
    short, long = seen(3, steps=3), seen(3, steps=50)
    short.reset(2)
    long.reset(2)
    last, on = still(short, 3)[-1], still(long, 3)[-1]
    assert last.truncated.all()
    assert same(last.next_obs, on.next_obs)
    assert not same(last.obs, last.next_obs)
    assert same(last.obs, short.restore(short.snapshot()))


def test_one_env_of_several_begins_anew(seen):
    """Worlds that go on keep their own pictures where another one is reset."""
    env, other = seen(4, end_m=0.0), seen(4, end_m=9.0)
    before = env.reset(0)
    other.reset(0)
    step, on = still(env)[0], still(other)[0]
    over = step.terminated
    assert 0 < int(over.sum()) < 4
    assert same(step.obs, on.obs, ~over)
    assert same(step.next_obs, on.obs)
    assert not same(step.obs, before, over)


def test_a_goal_stands_where_it_is(seen):
    """Seen from above the mark is green, right of the middle where its x is positive."""
    env = seen(8)
    picture = env.reset(3)["map"].int()
    green = (picture[:, 1] > 1.5 * picture[:, 0]).float()
    across = torch.linspace(-1.0, 1.0, 32)
    middle = (green * across).sum((1, 2)) / green.sum((1, 2))
    mark = env.view.goal["mark"][:, 0]
    assert torch.corrcoef(torch.stack([middle, mark]))[0, 1] > 0.99


@pytest.mark.slow
def test_pictures_have_a_history(seen):
    env = ChunkEnv(seen(2), obs_horizon=2, exec_horizon=3, gamma=1.0)
    env.reset(0)
    step = env.step(torch.ones(2, 4, 1))
    assert step.next_obs["front_rgb"].shape == (2, 2, 3, 32, 48)
    assert step.next_obs["front_rgb"].dtype == torch.uint8
    assert not torch.equal(step.next_obs["front_rgb"][:, 0], step.next_obs["front_rgb"][:, 1])


def test_pictures_come_late_where_the_world_does(seen):
    """Of a delay between two steps the older picture is shown, and no mixture."""
    fast = seen(2)
    fields = {"env": fast.cfg.model_dump(mode="json") | {"name": "sim"}}
    fields["obs_delay"] = {"latency_s": [0.03, 0.03]}
    late = LatencyEnv(LatencyEnv.Config.model_validate(fields), SeenTask(), 2)
    shown, seen_late = [fast.reset(0)], [late.reset(0)]
    for act in torch.ones(4, 2, 1):
        shown.append(fast.step(act).obs)
        seen_late.append(late.step(act).obs)
    late.close()
    assert not any(same(one, other) for one, other in itertools.pairwise(shown))
    assert same(shown[0], seen_late[0])
    assert same(shown[1], seen_late[3])
    assert same(shown[2], seen_late[4])


def test_a_bad_world_is_black_in_nobodys_observation(seen):
    """Its transition repeats what was seen before; the picture of its new episode is whole."""
    env = seen(2)
    before = env.reset(0)
    env._backend._state[1, 1] = np.nan
    step = still(env)[0]
    assert step.valid.tolist() == [True, False]
    assert same(step.next_obs, before, 1)
    assert int(step.obs["map"][1].max()) > 0
