"""What learners of logged data think of what follows: values in a world in which they are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pytest
import torch
from small_chain import GAMMA, HORIZON, logged_chain
from small_logged import offline_inputs, small_policy
from small_policies import ACT
from torch import Tensor

from robo_rl.algo.offline.aloe import Aloe
from robo_rl.algo.offline.auxiliary_actor import AuxiliaryActor
from robo_rl.algo.offline.base import OfflineInputs
from robo_rl.algo.offline.dsrl import Dsrl
from robo_rl.algo.offline.expo import Expo
from robo_rl.algo.offline.fql import Fql
from robo_rl.algo.offline.td3_bc import Td3Bc
from robo_rl.algo.offline_critics.cal_ql import CalQl
from robo_rl.algo.offline_critics.iql import Iql
from robo_rl.algo.offline_critics.td_critics import TdCritics
from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.critic.q import QCritic
from robo_rl.critic.value import ValueCritic
from robo_rl.data.replay import Replay
from robo_rl.policy.base import DenoisingPolicy

STEPS = 240
SIZES: dict[str, Any] = {
    "critic": QCritic.Config(members=2, hidden=(32,)),
    "value": ValueCritic.Config(hidden=(32,)),
}
PACE: dict[str, Any] = {"lr": 5e-3, "target_ema": 0.9, "minibatch": 128}
SMALL = AuxiliaryActor.Config(hidden=(32,))
OWN: dict[str, Any] = {"critic_lr": 5e-3, "target_ema": 0.9, "minibatch": 128}
STILL: dict[str, Any] = {"optim": SupervisedTrainer.Config(lr=1e-9, ema_decay=0.0)}
"""The policy stays what it is, and values are all that is learnt."""


class Judges(Protocol):
    """Critics, as far as they are asked."""

    def q_value(
        self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator
    ) -> Tensor: ...


@pytest.fixture(scope="module")
def replay() -> Replay:
    return logged_chain(300, 14, knows_time=False).replay


@pytest.fixture(scope="module")
def goes_on(replay: Replay) -> DenoisingPolicy:
    """Always, which the data do every other time."""
    return saying(replay, 0.6)


@pytest.fixture(scope="module")
def stays(replay: Replay) -> DenoisingPolicy:
    """Always, though going on would be better."""
    return saying(replay, -0.6)


def saying(replay: Replay, what: float) -> DenoisingPolicy:
    """Cloned from one who says the same everywhere."""
    torch.manual_seed(0)
    cloned, generator = small_policy(), torch.Generator().manual_seed(0)
    trainer = SupervisedTrainer(SupervisedTrainer.Config(lr=3e-3, ema_decay=0.9), cloned, 200)
    for _ in range(200):
        batch = replay.sample(128, generator)
        act = torch.full((128, HORIZON, ACT.size), what)
        trainer.step(cloned.loss(batch.obs, act, generator))
    return cloned.eval()


def going_on(replay: Replay, policy: DenoisingPolicy, judges: Judges) -> float:
    """What it is worth at the first place."""
    act = policy.normalizer.normalize("act", torch.full((64, HORIZON, ACT.size), 0.6))
    obs = replay.transitions(torch.zeros(64, dtype=torch.int64)).obs
    with torch.no_grad():
        worth = judges.q_value(obs, act, seeded())
    return float(worth.mean())


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def data_critics(policy: DenoisingPolicy, replay: Replay) -> Iql:
    """Such as have learnt nothing yet."""
    torch.manual_seed(2)
    return Iql(Iql.Config(**SIZES, **PACE), policy, replay, seeded())


def untrained(policy: DenoisingPolicy, replay: Replay) -> OfflineInputs:
    """With such critics."""
    return offline_inputs((policy, data_critics(policy, replay), replay), STEPS)


def aloe(policy: DenoisingPolicy, replay: Replay) -> tuple[Aloe, TdCritics]:
    cfg = Aloe.Config(critics=TdCritics.Config(**OWN), **STILL)  # pyright: ignore
    made = Aloe(cfg, untrained(policy, replay))
    return made, made.td_critics


def dsrl(policy: DenoisingPolicy, replay: Replay) -> tuple[Dsrl, TdCritics]:
    cfg = Dsrl.Config(actor=SMALL, **OWN, **STILL)
    made = Dsrl(cfg, untrained(policy, replay))
    return made, made.critics


def expo(policy: DenoisingPolicy, replay: Replay) -> tuple[Expo, TdCritics]:
    cfg = Expo.Config(num_samples=2, actor=SMALL, **OWN, **STILL)
    made = Expo(cfg, untrained(policy, replay))
    return made, made.critics


def fql(policy: DenoisingPolicy, replay: Replay) -> tuple[Fql, TdCritics]:
    cfg = Fql.Config(**OWN, **STILL)
    made = Fql(cfg, untrained(policy, replay))
    return made, made.critics


def td3_bc(policy: DenoisingPolicy, replay: Replay) -> tuple[Td3Bc, TdCritics]:
    cfg = Td3Bc.Config(**OWN, **STILL)
    made = Td3Bc(cfg, untrained(policy, replay))
    return made, made.critics


def cal_ql(policy: DenoisingPolicy, replay: Replay) -> tuple[CalQl, CalQl]:
    torch.manual_seed(2)
    made = CalQl(CalQl.Config(alpha=0.0, **SIZES, **PACE), policy, replay, seeded())
    return made, made


_RARELY = [pytest.param(make, marks=pytest.mark.slow) for make in (expo, dsrl, fql, td3_bc)]


@pytest.mark.parametrize("make", [cal_ql, aloe, *_RARELY])
def test_values_are_of_what_the_policy_would_do_next(
    replay: Replay, goes_on: DenoisingPolicy, make: Callable[..., tuple[Any, Judges]]
):
    """Decisions of 2, 1 and 2 steps lead to the reward in the last step."""
    learner, judges = make(goes_on, replay)
    for _ in range(STEPS):
        learner.step()
    assert going_on(replay, goes_on, judges) == pytest.approx(GAMMA**4, abs=0.05)


@pytest.mark.parametrize("make", [cal_ql, td3_bc])
def test_and_not_of_the_best_that_it_could_do(
    replay: Replay, stays: DenoisingPolicy, make: Callable[..., tuple[Any, Judges]]
):
    learner, judges = make(stays, replay)
    for _ in range(STEPS):
        learner.step()
    assert going_on(replay, stays, judges) == pytest.approx(0.0, abs=0.05)


def test_implicit_values_are_of_what_the_data_do_next(replay: Replay):
    """At τ = ½ these are the values of a decision in two that goes on."""
    critics = data_critics(policy := small_policy(), replay)
    critics.expectile = 0.5
    for _ in range(3 * STEPS):
        critics.step()
    last = 0.5 * GAMMA / (1.0 - 0.5 * GAMMA**2)
    middle = 0.5 * GAMMA * last / (1.0 - 0.5 * GAMMA)
    first = 0.5 * GAMMA**2 * middle / (1.0 - 0.5 * GAMMA**2)
    obs = replay.transitions(torch.zeros(1, dtype=torch.int64)).obs
    assert critics.value(obs).item() == pytest.approx(first, abs=0.04)
    assert going_on(replay, policy, critics) == pytest.approx(GAMMA**2 * middle, abs=0.05)
