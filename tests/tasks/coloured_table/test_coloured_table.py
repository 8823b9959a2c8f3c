"""Four skills, one table: goals, sentences, starts, success, and the demonstrator."""

from __future__ import annotations

import pytest
import torch

from robo_rl.config.models import validate
from robo_rl.core.errors import ConfigError
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.testing.task import check_task
from robo_rl_tasks.coloured_table.goals import HELD_OUT_GOALS, SKILLS, goals
from robo_rl_tasks.coloured_table.task import ColouredTable


def make(**fields) -> ColouredTable:
    return ColouredTable(validate({"actions": "pose_delta", **fields}, ColouredTable.Config))


def test_it_conforms():
    check_task(make)


def test_held_out_goals_and_sentences_are_never_drawn_in_training():
    train, held_out = goals(SKILLS, "train"), goals(SKILLS, "held_out")
    assert not {*train} & {*held_out}
    assert {*held_out} == {*HELD_OUT_GOALS}
    assert {*train, *held_out} == {*goals(SKILLS, "all")}
    for goal in train:
        assert not {*goal.sentences("train")} & {*goal.sentences("held_out")}
    assert not {*make().sentences} & {*make(sentences="held_out").sentences}


def test_every_word_of_a_held_out_goal_occurs_in_training():
    words = {word for text in make().sentences for word in text.split()}
    for text in make(goals="held_out").sentences:
        assert {*text.split()} <= words


def test_a_world_is_told_what_its_goal_is():
    task = make()
    goal = task.reset(400, torch.Generator().manual_seed(0)).goal
    names = {g.indices: g for g in task.goals}
    for indices, told in zip(goal["goal"].tolist(), goal["instruction"].tolist(), strict=True):
        assert task.sentences[told] in names[tuple(indices)].sentences("train")
    assert torch.equal(goal["task"], goal["goal"][:, 0])


def test_a_wrong_instruction_is_that_of_another_goal():
    task = make(instruction="wrong")
    goal = task.reset(200, torch.Generator().manual_seed(0)).goal
    names = {g.indices: g for g in task.goals}
    for indices, told in zip(goal["goal"].tolist(), goal["instruction"].tolist(), strict=True):
        assert task.sentences[told] not in names[tuple(indices)].sentences("all")


def test_tasks_are_drawn_by_their_weights():
    """A share of 3 / 4 of 4,000 worlds lies within four standard deviations."""
    task = make()
    even = task.reset(4000, torch.Generator().manual_seed(0)).goal["task"].bincount(minlength=4)
    assert ((even / 4000 - 0.25).abs() < 0.028).all()
    task.weigh_tasks(torch.tensor([0.0, 3.0, 1.0, 0.0]))
    found = task.reset(4000, torch.Generator().manual_seed(0)).goal["task"].bincount(minlength=4)
    assert found[0] == found[3] == 0
    assert abs(float(found[1]) / 4000 - 0.75) < 0.028


def test_no_two_objects_touch_at_the_start():
    start = make().reset(300, torch.Generator().manual_seed(0))
    cubes = start.qpos[:, -21:].unflatten(1, (3, 7))[..., :2]
    pads = torch.stack([start.goal["yellow_pad"], start.goal["purple_pad"]], dim=1)[..., :2]
    objects = torch.cat([cubes, pads], dim=1)
    apart = torch.cdist(objects, objects) + torch.eye(5)
    assert apart.min() > 0.04 + 0.02


def test_a_split_without_a_goal_is_refused():
    with pytest.raises(ConfigError, match="no goal to draw"):
        make(skills=["press"], goals="held_out")
    with pytest.raises(ConfigError, match="no other goal"):
        make(skills=["lift"], goals="held_out", instruction="wrong")
    with pytest.raises(ConfigError, match="each once"):
        make(skills=["lift", "lift"])


def test_the_demonstrator_succeeds_at_every_skill_within_the_time():
    """Without noise it has failed in none of 240 worlds; four failures of 40 are unlikely."""
    task, num = make(), 40
    env = SimEnv(SimEnv.Config(), task, num)
    env.reset(3)
    skills = env.view.goal["task"].clone()
    expert = task.expert(num, torch.Generator().manual_seed(0), 0.0)
    won, over = torch.zeros(2, num, dtype=torch.bool)
    for _ in range(env.max_episode_steps):
        step = env.step(expert.act(env.view).act)
        won |= ~over & step.success
        over |= step.terminated | step.truncated
        if bool(over.all()):
            break
    env.close()
    assert won.double().mean() > 0.9
    assert {*skills[won].tolist()} == {0, 1, 2, 3}
