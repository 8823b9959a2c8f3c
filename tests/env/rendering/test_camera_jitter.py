from __future__ import annotations

import pytest
import torch
from small_cameras import ITEMS, LIGHTS, SHAKY, differ, same, still

from robo_rl.api.renderer import MOCAP
from robo_rl.core.errors import CheckpointError

COLOURS = [{"field": "geom_rgba", "name": "cart", "mode": "abs", "range": [0, 1]}]
ALL = {"cameras": SHAKY, "lights": LIGHTS, "randomize": COLOURS}


def in_one_place(env):
    """Pictures of all worlds where the first one stands, with its goal: looks alone differ."""
    looks, qpos = env._cameras.looks.now, env.view.qpos
    for name in MOCAP:
        looks[name][:] = looks[name][0].clone()
    return env._cameras.start(qpos[:1].repeat(len(qpos), 1))()


def test_without_chance_all_worlds_look_alike(seen):
    env = seen(4)
    env.reset(0)
    pictures = in_one_place(env)
    for name in ITEMS:
        assert torch.equal(pictures[name], pictures[name][:1].expand_as(pictures[name]))


@pytest.mark.parametrize("setting", ["cameras", "lights", "randomize"])
def test_what_is_drawn_by_chance_can_be_seen_and_is_kept(seen, setting):
    env = seen(4, **{setting: ALL[setting]})
    obs = env.reset(0)
    snapshot = env.snapshot()
    pictures = in_one_place(env)
    assert all(differ(pictures[name]) for name in ITEMS)
    still(env)
    env.reset()
    assert same(env.restore(snapshot), obs)


def test_a_moved_shape_is_seen_where_it_is(seen):
    """A shape at the origin of its body, whose pose MuJoCo then takes from the body."""
    moved = {"field": "geom_pos", "name": "cart", "mode": "add", "range": [-0.2, 0.2]}
    env = seen(4, randomize=[moved])
    env.reset(0)
    pictures = in_one_place(env)
    assert all(differ(pictures[name]) for name in ITEMS)


def test_looks_repeat_with_the_seed_and_are_one_in_a_group(seen):
    env = seen(6, **ALL)
    assert same(env.reset_groups(1, 4), env.reset_groups(1, 4))
    env.reset_groups(3, 4)
    pictures = in_one_place(env)
    for name in ITEMS:
        assert torch.equal(pictures[name][0], pictures[name][2])
        assert torch.equal(pictures[name][3], pictures[name][5])
        assert not torch.equal(pictures[name][0], pictures[name][3])


def test_a_snapshot_of_an_env_without_cameras_can_be_seen(seen):
    blind, sighted = seen(3, cameras=[]), seen(3)
    blind.reset(0)
    obs = sighted.reset(0)
    sighted.reset(1)
    assert same(sighted.restore(blind.snapshot()), obs)


def test_a_snapshot_that_lacks_what_was_drawn_is_refused(seen):
    """Its physics would have the fields that were drawn, and its pictures the nominal ones."""
    blind = seen(3, cameras=[], randomize=COLOURS)
    sighted, other = seen(3, randomize=COLOURS), seen(3)
    blind.reset(0)
    obs = sighted.reset(0)
    with pytest.raises(CheckpointError, match="same randomize, and with cameras"):
        sighted.restore(blind.snapshot())
    assert same(sighted.restore(sighted.snapshot()), obs)
    with pytest.raises(CheckpointError, match="found \\['geom_rgba'\\]"):
        other.restore(sighted.snapshot())
    blind.restore(sighted.snapshot())
