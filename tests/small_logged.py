"""Logged decisions of a made-up world of one step, in which what is right is known.

A decision pays 1 if its first action's first element is positive, and ends the episode.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeVar

import torch
from small_policies import ACT, OBS, make_policy
from torch import Tensor

from robo_rl.algo.offline.base import OfflineAlgorithm, OfflineInputs
from robo_rl.algo.offline_critics.base import OfflineCritics
from robo_rl.algo.offline_critics.iql import Iql
from robo_rl.critic.q import QCritic
from robo_rl.critic.value import ValueCritic
from robo_rl.data.replay import Replay
from robo_rl.ope.time_aware import add_time_feature
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.pytree import flatten

HORIZON = 3
GAMMA = 0.99


def logged_columns(rows: int, seed: int = 0) -> dict[str, Tensor]:
    """Decisions at random, each an episode of its own."""
    generator = torch.Generator().manual_seed(seed)
    act = 2.0 * torch.rand(rows, HORIZON, ACT.size, generator=generator) - 1.0
    seen: dict[str, Tensor] = {
        f"obs.{name}": torch.randn(rows, 1, *spec.shape, generator=generator)
        for name, spec in OBS.items.items()
    }
    columns = {
        **seen,
        "act": act,
        "rew": (act[:, 0, 0] > 0.0).float(),
        "discount": torch.full((rows,), GAMMA),
        "terminated": torch.ones(rows, dtype=torch.bool),
        "num_exec": torch.ones(rows, dtype=torch.int64),
        "next": torch.arange(rows),
        "decision": torch.ones(rows, dtype=torch.bool),
    }
    return add_time_feature(columns, torch.zeros(rows, dtype=torch.int64), 2)


def logged_replay(rows: int, seed: int = 0) -> Replay:
    """These, as learners want them."""
    replay = Replay(Replay.Config(demo_fraction=1.0))
    replay.add_demonstrations(logged_columns(rows, seed))
    return replay


Improver = TypeVar("Improver", bound=OfflineAlgorithm)
World = tuple[DenoisingPolicy, OfflineCritics, Replay]


def judged_world() -> World:
    """Half of the logged decisions pay; a policy, critics that know which do, and the logs."""
    generator, replay = torch.Generator().manual_seed(0), logged_replay(800)
    torch.manual_seed(0)
    policy = small_policy()
    small = {"critic": QCritic.Config(members=2, hidden=(32,)), "lr": 3e-3, "target_ema": 0.9}
    cfg = Iql.Config(value=ValueCritic.Config(hidden=(32,)), minibatch=128, **small)  # pyright: ignore
    critics = Iql(cfg, policy, replay, generator)
    for _ in range(300):
        critics.step()
    return policy, critics, replay


def paying(policy: DenoisingPolicy, replay: Replay) -> float:
    """How often a policy does what pays."""
    obs = replay.transitions(torch.arange(400)).obs
    act = policy.act(obs, torch.Generator().manual_seed(2))
    return float((act[:, 0, 0] > 0.0).float().mean())


def make_improver(
    kind: Callable[..., Improver], world: World, steps: int = 300, **settings: object
) -> Improver:
    """An algorithm of that world, which learns fast."""
    optim = {"lr": 3e-3, "ema_decay": 0.9}
    cfg = kind.Config(minibatch=64, optim=optim, **settings)  # pyright: ignore
    return kind(cfg, offline_inputs(world, steps))


def demand_improves(improving: OfflineAlgorithm, world: World, least: float = 0.9) -> None:
    """Demand that what pays is done more often, and that the policy and critics before stay."""
    policy, critics, replay = world
    before, theirs = (copy.deepcopy(m.state_dict()) for m in (policy, critics.target.module))
    for _ in range(300):
        improving.step()
    assert paying(improving.policy, replay) > max(least, paying(policy, replay))
    assert all(torch.equal(x, before[name]) for name, x in policy.state_dict().items())
    assert all(torch.equal(x, theirs[n]) for n, x in critics.target.module.state_dict().items())


def offline_inputs(world: World, steps: int) -> OfflineInputs:
    """Of that world, for an algorithm of so many steps."""
    return OfflineInputs(*world, steps, torch.Generator().manual_seed(1))


def demand_goes_on(make: Callable[[], OfflineAlgorithm]) -> None:
    """Demand that one that is put back goes on to the bit, in all that it keeps."""
    whole, first, second = (make() for _ in range(3))
    for _ in range(20):
        whole.step()
    for _ in range(9):
        first.step()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    second.generator.set_state(first.generator.get_state())
    for _ in range(11):
        second.step()
    kept, again = (flatten(each.state_dict())[0] for each in (whole, second))
    assert kept.keys() == again.keys()
    apart = [name for name, x in kept.items() if not torch.equal(x, again[name])]
    assert not apart


class Always(torch.nn.Module):
    """A policy that says one and the same, whatever it sees."""

    def __init__(self, like: DenoisingPolicy, value: float) -> None:
        super().__init__()
        self.like, self.value = like, value

    def __getattr__(self, name: str):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("like"), name)

    def act(self, obs: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        del generator
        rows = len(next(iter(obs.values())))
        return self.like.to_env(obs, torch.full((rows, HORIZON, ACT.size), self.value))


def small_policy() -> DenoisingPolicy:
    """Of that world."""
    return make_policy("flow_sde", 2, horizon=HORIZON, exec_horizon=1).float()
