"""A mocap body that is named after a goal stands there in physics too, on every backend."""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import mujoco
import pytest
import torch
from small_plugin import Plugins, plugins

from robo_rl.config.component import component
from robo_rl.core.errors import PluginError
from robo_rl.env.mujoco.cpu_backend import MujocoCpu
from robo_rl.env.mujoco.mocap import mocap_poses
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.testing.task import check_task
from robo_rl_sim2real.simulated.world import SimWorld

__all__ = ["plugins"]

C = {"name": "mujoco_cpu", "threads": 2}
WARP = {"name": "mujoco_warp", "device": "cpu"}
TO_THE_WALL = torch.tensor([1.0, 0.0, 0.0])


@pytest.fixture
def task(plugins: Plugins):
    plugins.install()
    return component("tasks").make("sweep").build()


@pytest.fixture
def env(task):
    made = []

    def make(num_envs, backend=C, **settings):
        cfg = SimEnv.Config.model_validate({"backend": backend, **settings})
        made.append(SimEnv(cfg, task, num_envs))
        return made[-1]

    yield make
    for each in made:
        each.close()


def wall_angle(env):
    goal = env.view.goal["wall"].double()
    return torch.atan2(goal[:, 1], goal[:, 0])


def swept(env, steps=30):
    """Where the arm is, (B,) rad, when it has been told for a while to go beyond the wall."""
    act = TO_THE_WALL.expand(env.num_envs, steps, 3)
    env.rollout(act)
    return env.view.qpos[:, 0].double().clone()


def stands_before(angle, wall):
    """Half the wall is 20 mm, the peg's radius 10 mm: 60 mrad at half a metre."""
    return bool(((angle > wall - 0.09) & (angle < wall - 0.04)).all())


# Warp compiles its kernels anew for a scene of this size; conformance has a wall on both backends.
@pytest.mark.parametrize(
    "backend", [C, pytest.param(WARP, marks=pytest.mark.slow)], ids=["c", "warp"]
)
def test_a_peg_stops_at_the_wall_where_the_goal_says(env, backend):
    if backend is WARP:
        pytest.importorskip("mujoco_warp", reason="the extra 'warp' is not installed")
    made = env(4, backend)
    made.reset(0)
    wall = wall_angle(made)
    assert wall.max() - wall.min() > 0.05
    assert stands_before(swept(made), wall)


@pytest.mark.slow
def test_backends_agree_about_it(env):
    pytest.importorskip("mujoco_warp", reason="the extra 'warp' is not installed")
    left, right = env(4), env(4, WARP)
    for each in (left, right):
        each.reset(0)
    torch.testing.assert_close(swept(left), swept(right), atol=2e-3, rtol=0)


def test_a_world_that_begins_anew_has_its_own_wall(env):
    made = env(3)
    made.reset(0)
    first = wall_angle(made)
    swept(made, 40)  # the time limit: all begin anew
    second = wall_angle(made)
    assert not torch.equal(first, second)
    assert stands_before(swept(made), second)


def test_a_snapshot_keeps_where_it_stands(env):
    made, other = env(3), env(3)
    made.reset(0)
    snapshot = made.snapshot()
    angle = swept(made)
    for each in (made, other):
        each.reset(1)
        each.restore(snapshot)
        assert torch.equal(swept(each), angle)


def test_one_that_no_goal_places_stands_where_it_was_randomised(task):
    model = task.scene().compile()
    fields = {"body_pos": torch.from_numpy(model.body_pos).repeat(2, 1, 1)}
    fields["body_pos"][1, model.body("wall").id] = torch.tensor([0.25, 0.5, 0.75])
    mocap = mocap_poses(model, {}, 2, fields)["mocap"]
    assert mocap[:, 0, :3].tolist() == [[-1, 0, 0.2], [0.25, 0.5, 0.75]]
    goal = {"wall": torch.tensor([[1.0, 2, 3], [4, 5, 6]])}
    assert mocap_poses(model, goal, 2, fields)["mocap"][:, 0, :3].tolist() == goal["wall"].tolist()


def test_a_scene_without_mocap_bodies_is_told_nothing_of_them():
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    assert mocap_poses(model, {"wall": torch.zeros(2, 3)}, 2) == {}


class KnowsNoMocap(MujocoCpu):
    def write(self, ids, qpos, qvel, fields=None):  # pyright: ignore
        super().write(ids, qpos, qvel, fields)


def test_a_backend_that_cannot_place_it_is_refused(task):
    backend = component("backends").make("mujoco_cpu")
    cfg = SimEnv.Config(backend=type(backend)("backends", "none", KnowsNoMocap, backend.cfg))
    with pytest.raises(PluginError, match="KnowsNoMocap: the scene has mocap bodies"):
        SimEnv(cfg, task, 2)


def test_the_outside_authors_task_conforms(task):
    check_task(lambda: task)


def test_a_simulated_robot_meets_it_too(task):
    world = SimWorld(task, component("backends").make(C).build(), 0.05)
    for seed in (0, 1):
        world.reset(seed)
        world.command({"shoulder": 1.0})
        for _ in range(30):
            world.step()
        goal = world.view.goal["wall"].double()
        angle = torch.tensor([world.joint_positions()["shoulder"]])
        assert stands_before(angle, torch.atan2(goal[:, 1], goal[:, 0]))
    world.close()
