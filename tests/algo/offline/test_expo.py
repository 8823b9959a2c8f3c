"""A policy's chunks, their edits, and the best of all."""

from __future__ import annotations

from functools import partial
from typing import Any

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
    judged, judge = list[tuple[torch.Tensor, torch.Tensor]](), improving.critics.q_value

    def judging(obs: Any, act: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        judged.append((act, judge(obs, act, generator)))
        return judged[-1][1]

    improving.critics.q_value = judging
    drawn, _, best, worth = improving.best(obs)
    improving.critics.q_value = judge
    acts = judged[0][0].view(2, 200, draws, *best.shape[1:])  # as drawn, and edited
    assert torch.equal(worth, judged[0][1].view(2, 200, draws).amax(dim=(0, 2)))
    assert (acts == best[None, :, None]).flatten(3).all(3).any(2).any(0).all()
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
