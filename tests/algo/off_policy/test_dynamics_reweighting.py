"""Simulated transitions count as far as reality does the same.

One number to move, x' = x + a. The simulator does so where x < 0; elsewhere its gain is another.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from small_control import GAMMA, NUM_ENVS, Control, control_policy

from robo_rl.algo.off_policy.base import OffPolicy
from robo_rl.algo.off_policy.dynamics_reweighting import DynamicsGap
from robo_rl.algo.off_policy.sac import Sac
from robo_rl.algo.off_policy.td3 import Td3, Td3Config
from robo_rl.core.errors import ConfigError
from robo_rl.critic.q import QCritic
from robo_rl.data.replay import Replay, Transitions
from robo_rl.data.rollout import Rollout, RolloutBuilder

SMALL: dict[str, Any] = {"hidden": (64, 64), "lr": 2e-3}
NARROW = {"name": "gaussian", "std_min": 0.02, "std_max": 0.5}


def made(rows: int, gain: float, generator: torch.Generator) -> Transitions:
    """Half of them real; of the others, those of x > 0 move by gain · a."""
    x = 3.0 * torch.rand(rows, generator=generator) - 1.5
    act = 2.0 * torch.rand(rows, generator=generator) - 1.0
    demo, never = torch.arange(rows) < rows // 2, torch.zeros(rows, dtype=torch.bool)
    after = x + act * torch.where(~demo & (x > 0.0), gain, 1.0)
    return Transitions(
        obs={"x": x[:, None, None]},
        act=act[:, None, None],
        rew=torch.zeros(rows),
        discount=torch.full((rows,), GAMMA),
        terminated=never,
        next_obs={"x": after[:, None, None]},
        num_exec=torch.ones(rows, dtype=torch.int64),
        demo=demo,
        human=never,
        row=torch.arange(rows),
        next_row=torch.arange(rows),
    )


def seen() -> QCritic:
    """A critic of that world: what discriminators see it by."""
    policy = control_policy()
    return QCritic(
        QCritic.Config(members=1, hidden=(8,)),
        policy.obs_spec,
        policy.act_spec,
        obs_horizon=1,
        exec_horizon=1,
        normalizer=policy.normalizer,
    )


def fitted(gain: float, steps: int) -> DynamicsGap:
    generator = torch.Generator().manual_seed(0)
    gap = DynamicsGap(DynamicsGap.Config.model_validate(SMALL), seen(), generator)
    for _ in range(steps):
        gap.step(made(256, gain, generator))
    return gap


def test_what_reality_would_not_do_counts_little_and_the_rest_nearly_in_full():
    gap = fitted(gain=0.0, steps=500)
    batch = made(4000, 0.0, torch.Generator().manual_seed(1))
    weights = gap.weights(batch)
    x, moved = batch.obs["x"][:, 0, 0], batch.act[:, 0, 0].abs() > 0.5
    wrong = weights[~batch.demo & (x > 0.0) & moved]
    right = weights[~batch.demo & (x < 0.0) & moved]
    assert float(wrong.mean()) < 0.2
    assert float(right.mean()) > 0.7
    assert bool((weights[batch.demo] == 1.0).all())
    assert float(weights.min()) >= 1e-5
    assert float(weights.max()) <= 1.0


@pytest.mark.slow
def test_half_the_gain_is_found_too():
    gap = fitted(gain=0.5, steps=1000)
    batch = made(4000, 0.5, torch.Generator().manual_seed(1))
    weights, x = gap.weights(batch), batch.obs["x"][:, 0, 0]
    far = ~batch.demo & (batch.act[:, 0, 0].abs() > 0.8)
    assert float(weights[far & (x > 0.0)].mean()) < 0.35
    assert float(weights[far & (x < 0.0)].mean()) > 0.7


def test_where_the_simulator_is_right_all_counts():
    batch = made(4000, 1.0, torch.Generator().manual_seed(1))
    assert float(fitted(gain=1.0, steps=300).weights(batch).mean()) > 0.9


def test_no_weight_is_below_the_least():
    gap = DynamicsGap(DynamicsGap.Config(min_weight=0.25), seen(), torch.Generator())
    last: Any = gap.nets["outcome"]
    torch.nn.init.constant_(last[-1].bias, -50.0)
    batch = made(10, 1.0, torch.Generator().manual_seed(1))
    assert gap.weights(batch).tolist() == [1.0] * 5 + [0.25] * 5


def test_where_the_task_ended_no_successor_is_looked_at():
    gap = fitted(gain=0.0, steps=20)
    batch = made(10, 0.0, torch.Generator().manual_seed(1))
    ended = batch._replace(terminated=torch.ones(10, dtype=torch.bool))
    elsewhere = ended._replace(next_obs={"x": ended.next_obs["x"] + 1.0})
    assert torch.equal(gap.weights(ended), gap.weights(elsewhere))
    assert not torch.equal(gap.weights(batch), gap.weights(ended))


def test_without_anything_real_nothing_is_told():
    gap = fitted(gain=0.0, steps=0)
    batch = made(10, 0.0, torch.Generator())
    with pytest.raises(ConfigError, match="no logged transitions"):
        gap.step(batch._replace(demo=torch.zeros(10, dtype=torch.bool)))


class Fork:
    """Two decisions: from x in [-1, 1] to a place, which pays what it is and ends the task.

    The place is 1; the simulator says −1 where x > 0.
    """

    def __init__(self, seed: int, wrong: float) -> None:
        self.generator, self.wrong = torch.Generator().manual_seed(seed), wrong

    def rollout(self) -> Rollout:
        """One episode of each env."""
        x = 2.0 * torch.rand(NUM_ENVS, generator=self.generator) - 1.0
        place = torch.where(x > 0.0, self.wrong, 1.0)
        builder, all_ = RolloutBuilder(), torch.ones(NUM_ENVS, dtype=torch.bool)
        for at, following, pays, ends in ((x, place, 0.0 * x, ~all_), (place, place, place, all_)):
            act = 2.0 * torch.rand(NUM_ENVS, 1, 1, generator=self.generator) - 1.0
            columns = {
                "x": torch.stack([torch.zeros_like(act), act], dim=1),
                "log_prob": torch.zeros(NUM_ENVS, 1),
                "rew": pays,
                "terminated": ends,
                "truncated": torch.zeros_like(ends),
                "valid": all_,
                "discount": torch.full((NUM_ENVS,), GAMMA),
                "num_exec": torch.ones(NUM_ENVS, dtype=torch.int64),
            }
            builder.add({"x": at[:, None, None]}, {"x": following[:, None, None]}, columns)
        return builder.finish({"x": x[:, None, None]})

    def logged(self, episodes: int) -> dict[str, torch.Tensor]:
        """The same as demonstrations."""
        replay = Replay(Replay.Config())
        for _ in range(episodes // NUM_ENVS):
            replay.add(self.rollout())
        return replay.state_dict()["columns"]


def valued(gap: dict[str, Any] | None) -> float:
    """Mean value of places of x in (0.1, 0.9), learnt of both; in reality it is γ·1."""
    policy = control_policy()
    torch.manual_seed(1)
    fields = {
        "critic": {"members": 2, "hidden": (64, 64)},
        "critic_lr": 2e-3,
        "target_ema": 0.9,
        "utd_ratio": 0.5,
        "warmup_decisions": 0,
        "critic_warmup_steps": 10_000,
        "scale_rewards": False,
        "dynamics_gap": gap,
    }
    generator = torch.Generator().manual_seed(0)
    td3 = Td3(Td3Config.model_validate(fields), policy, NUM_ENVS, generator)
    td3.add_demonstrations(Fork(0, wrong=1.0).logged(320))
    simulator = Fork(1, wrong=-1.0)
    for _ in range(16):
        td3.update(simulator.rollout())
    x = torch.linspace(0.1, 0.9, 17)[:, None, None]
    with torch.no_grad():
        return float(td3.critic({"x": x}, torch.zeros_like(x)).mean())


@pytest.mark.slow
def test_values_are_reality_s_where_the_simulator_is_wrong():
    assert valued(None) < 0.5 * GAMMA
    assert valued(SMALL) > 0.8 * GAMMA


@pytest.mark.parametrize("algo", [Td3, Sac])
def test_it_continues_from_its_state_to_the_bit(algo):
    def learner() -> OffPolicy:
        policy = control_policy(sampler=NARROW)
        torch.manual_seed(1)
        fields = {
            "critic": {"members": 2, "hidden": (16,)},
            "minibatch": 16,
            "warmup_decisions": 0,
            "utd_ratio": 0.1,
            "dynamics_gap": {"hidden": (16,)},
        }
        generator = torch.Generator().manual_seed(0)
        made: OffPolicy = algo(algo.Config.model_validate(fields), policy, NUM_ENVS, generator)
        made.add_demonstrations(Fork(0, wrong=1.0).logged(64))
        return made

    results = []
    for interrupted in (False, True):
        world, learning = Control(), learner()
        for block in range(4):
            found = learning.update(world.rollout(learning.policy, 2))
            assert 1e-5 <= found["simulated_weight"] <= 1.0
            assert found["gap_decision_loss"] > 0.0
            assert found["gap_outcome_loss"] > 0.0
            if interrupted and block == 1:
                state = copy.deepcopy(learning.state_dict())
                drawn = learning.generator.get_state()
                learning = learner()
                learning.load_state_dict(state)
                learning.generator.set_state(drawn)
        assert learning.dynamics_gap is not None
        results.append(
            [
                *learning.policy.parameters(),
                *learning.target.module.parameters(),
                *learning.dynamics_gap.nets.parameters(),
            ]
        )
    assert all(torch.equal(x, y) for x, y in zip(*results, strict=True))
