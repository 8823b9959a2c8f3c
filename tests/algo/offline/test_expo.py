"""A policy's chunks, their edits, and the best of all."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from small_logged import World, demand_goes_on, demand_improves, make_improver

from robo_rl.algo.offline.expo import Expo

improver = partial(make_improver, Expo, actor={"hidden": (32,), "lr": 3e-3})


def test_what_pays_is_done_more_often_and_the_policy_before_stays(world: World):
    demand_improves(improver(world), world)


@pytest.mark.parametrize("draws", [1, 3])
def test_the_best_is_one_of_the_candidates_and_none_is_worth_more(world: World, draws: int):
    improving, obs = improver(world, num_samples=draws, edit_bound=0.05), some(world)
    improving.generator.manual_seed(5)
    drawn, _, best, worth = improving.best(obs)
    with torch.no_grad():
        plain = improving.critics.q_value(obs, drawn, improving.generator)
        again = improving.critics.q_value(obs, best, improving.generator)
    assert torch.allclose(again, worth, atol=1e-5)
    assert (worth >= plain - 1e-5).all()
    if draws == 1:  # what is best is the chunk itself or its edit, which is within bounds
        assert (best - drawn).abs().max() < 0.05 + 1e-6
        assert (best - drawn).abs().max() > 0.0


def test_edits_learn_to_be_worth_more_than_what_they_edit(world: World):
    improving, obs = improver(world, num_samples=1, edit_bound=0.3), some(world)
    for _ in range(200):
        improving.step()
    drawn = improving.best(obs).drawn
    edit = improving.actor.sample(improving._inputs(obs, drawn), improving.generator)
    with torch.no_grad():
        before, after = (
            improving.critics.q_value(obs, chunk, improving.generator)
            for chunk in (drawn, drawn + edit.view_as(drawn))
        )
    assert float((after - before).mean()) > 0.02
    assert float((after > before).float().mean()) > 0.7


def some(world: World) -> dict[str, torch.Tensor]:
    return world[2].transitions(torch.arange(200)).obs


def test_a_run_that_is_cut_off_goes_on_to_the_bit(world: World):
    demand_goes_on(lambda: improver(world, 20))
