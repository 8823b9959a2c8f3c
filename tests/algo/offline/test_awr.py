"""Cloning in which good actions count for more."""

from __future__ import annotations

import pytest
import torch
from small_logged import judged_world, logged_columns, offline_inputs, paying

from robo_rl.algo.offline.awr import Awr, advantage_weights, floor_advantage
from robo_rl.data.replay import Replay

ADVANTAGE = torch.linspace(-3.0, 3.0, 101)


def test_weights_rise_with_the_advantage_are_held_and_have_mean_one():
    found = advantage_weights(ADVANTAGE, max_weight=5.0)
    assert float(found.mean()) == pytest.approx(1.0)
    assert bool((found.diff() >= 0.0).all())
    low, high = advantage_weights(torch.tensor([0.0, 9.0]), max_weight=5.0)
    assert float(high / low) == pytest.approx(5.0)


def test_data_of_one_advantage_are_cloned_as_they_are():
    assert torch.equal(advantage_weights(torch.zeros(5), max_weight=5.0), torch.ones(5))


def test_what_pays_is_done_more_often_than_in_the_data_and_the_policy_before_stays():
    """Half of the decisions pay; a clone of them pays as often."""
    policy, critics, replay = judged_world()
    before = {name: x.clone() for name, x in policy.state_dict().items()}
    shares = {}
    for temperature in (0.5, 1e6):
        cfg = Awr.Config(temperature=temperature, optim={"lr": 3e-3, "ema_decay": 0.9})  # pyright: ignore
        improver = Awr(cfg, offline_inputs((policy, critics, replay), 400))
        for _ in range(400):
            improver.step()
        obs = replay.transitions(torch.arange(400)).obs
        act = improver.policy.act(obs, torch.Generator().manual_seed(2))
        shares[temperature] = float((act[:, 0, 0] > 0.0).float().mean())
    assert shares[1e6] == pytest.approx(0.5, abs=0.12)
    assert shares[0.5] > 0.85
    assert all(torch.equal(x, before[name]) for name, x in policy.state_dict().items())


def test_an_advantage_is_raised_of_some_rows_alone_and_never_lowered():
    rows = torch.tensor([True, True, False])
    assert floor_advantage(torch.tensor([-2.0, 3.0, -2.0]), rows, 1.0).tolist() == [1.0, 3.0, -2.0]


@pytest.mark.slow
def test_what_a_human_did_is_cloned_whatever_critics_think_of_it():
    """A human did what does not pay in two of five of those decisions, and nothing else."""
    policy, critics, logged = judged_world()
    columns = logged_columns(logged.rows)
    replay = Replay(Replay.Config(demo_fraction=1.0))
    replay.add_demonstrations({**columns, "human": columns["act"][:, 0, 0] < -0.6})
    found = []
    for human in (0.0, 1.5):
        cfg = Awr.Config(intervention_min_advantage=human, optim={"lr": 3e-3, "ema_decay": 0.9})  # pyright: ignore
        improver = Awr(cfg, offline_inputs((policy, critics, replay), 400))
        for _ in range(400):
            improver.step()
        found.append(paying(improver.policy, replay))
    assert found[0] > 0.85
    assert found[1] < 0.65
