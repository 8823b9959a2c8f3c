"""Critics that think little of what nobody has tried, and no less than is true."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from small_logged import Always, logged_columns, logged_replay, small_policy

from robo_rl.algo.offline_critics.cal_ql import CalQl
from robo_rl.critic.q import QCritic
from robo_rl.critic.value import ValueCritic
from robo_rl.data.replay import Replay
from robo_rl.data.transitions import Transitions


def learnt(alpha: float, steps: int, *, does: float = 0.5, replay: Replay | None = None) -> CalQl:
    """Critics of a policy that always does one thing."""
    torch.manual_seed(0)
    policy = Always(small_policy(), does)
    cfg = CalQl.Config(
        alpha=alpha,
        critic=QCritic.Config(members=2, hidden=(32,)),
        value=ValueCritic.Config(hidden=(32,)),
        lr=3e-3,
        target_ema=0.9,
        minibatch=128,
    )
    generator = torch.Generator().manual_seed(0)
    critics = CalQl(cfg, policy, replay or logged_replay(800), generator)  # pyright: ignore
    for _ in range(steps):
        critics.step()
    return critics


def narrow_replay() -> Replay:
    """Decisions of which none moves far, half of which pay."""
    columns = logged_columns(800)
    columns["act"] = 0.2 * columns["act"]
    replay = Replay(Replay.Config(demo_fraction=1.0))
    replay.add_demonstrations(columns)
    return replay


def tried() -> Transitions:
    return narrow_replay().transitions(torch.arange(300))


def worth(critics: CalQl, batch: Transitions, value: float) -> float:
    act = torch.full_like(batch.act, value)
    return float(critics.q_value(batch.obs, act, torch.Generator()).mean())


@pytest.mark.slow
def test_what_pays_has_the_advantage_over_what_the_policy_does():
    batch = logged_replay(300, seed=1).transitions(torch.arange(300))
    critics = learnt(0.0, 300, does=-0.5)
    advantage = critics.advantage(batch.obs, batch.act, torch.Generator())
    good, bad = batch.act[:, 0, 0] > 0.2, batch.act[:, 0, 0] < -0.2
    assert advantage[good].mean() > 0.7
    assert abs(float(advantage[bad].mean())) < 0.2


def test_the_policy_s_chunks_that_nobody_tried_are_worth_less_than_without():
    both = (learnt(alpha, 150, does=0.9, replay=narrow_replay()) for alpha in (0.0, 1.0))
    free, held = (worth(critics, tried(), 0.9) for critics in both)
    assert held < free - 0.5


def test_they_are_not_pushed_below_what_the_data_came_to():
    """All decisions pay 1 here, so that nothing the policy does may be thought worse of."""
    columns = logged_columns(800)
    columns["act"], columns["rew"] = 0.2 * columns["act"], torch.ones(800)
    replay = Replay(Replay.Config(demo_fraction=1.0))
    replay.add_demonstrations(columns)
    held = learnt(1.0, 150, does=0.9, replay=replay)
    assert worth(held, tried(), 0.9) > 0.5
    held.returns_to_go.zero_()  # as CQL has it
    for _ in range(150):
        held.step()
    assert worth(held, tried(), 0.9) < 0.1


def test_a_learner_that_is_put_back_goes_on_as_it_would_have():
    one, other = learnt(1.0, 3), learnt(1.0, 0)
    other.load_state_dict(deepcopy(one.state_dict()))
    other.generator.set_state(one.generator.get_state())
    for _ in range(6):
        assert one.step() == other.step()
