"""Cloning weighted by critics that follow the policy."""

from __future__ import annotations

from functools import partial

import torch
from small_logged import World, demand_goes_on, demand_improves, make_improver

from robo_rl.algo.offline.aloe import Aloe

improver = partial(make_improver, Aloe)


def test_what_pays_is_done_more_often_and_the_policy_before_stays(world: World):
    demand_improves(improver(world), world, least=0.85)


def test_an_advantage_is_over_what_the_policy_does_by_now(world: World):
    """Once it does what pays, what pays is no advantage any more, and what does not is none."""
    improving, batch = improver(world), world[2].transitions(torch.arange(400))
    good, bad = batch.act[:, 0, 0] > 0.2, batch.act[:, 0, 0] < -0.2
    at_first = improving.advantage(batch)
    for _ in range(300):
        improving.step()
    then = improving.advantage(batch)
    assert float(at_first[good].mean()) > 0.3
    assert abs(float(then[good].mean())) < 0.2
    assert float(then[bad].mean()) < -0.6


def test_a_run_that_is_cut_off_goes_on_to_the_bit(world: World):
    demand_goes_on(lambda: improver(world, 20))
