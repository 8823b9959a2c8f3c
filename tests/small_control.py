"""One number to control, x' = x + a, at the price x² + a²: a world whose optimum is known by hand.

With discount γ the value is −P·x², P = 1 + γP − γ²P²/(1 + γP), and the best action −K·x with
K = γP/(1 + γP). For γ = 0.9: 0.9P² − 0.8P − 1 = 0, P = 1.58839, K = 0.58839.
"""

from __future__ import annotations

import torch

from robo_rl.config.component import component
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.data.rollout import Rollout, RolloutBuilder, executed_mask
from robo_rl.policy.base import DenoisingPolicy

OBS = ObsSpec(items={"x": TensorSpec(shape=(1,))})
ACT = ActSpec(shape=(1,), rate_hz=10.0, low=(-1.0,), high=(1.0,))
GAMMA, P, GAIN = 0.9, 1.58839, 0.58839
NUM_ENVS, LIMIT = 32, 5


def control_policy(family: str = "gaussian", **fields: object) -> DenoisingPolicy:
    """A small policy over that world."""
    torch.manual_seed(0)
    steps = 1 if family == "gaussian" else 2
    settings = {"horizon": 1, "exec_horizon": 1, "net": {"name": "mlp", "width": 32, "depth": 1}}
    given = {"name": family, "num_steps": steps, **settings, **fields}
    return component("policies").make(given).build(OBS, ACT, Normalizer.identity(OBS, ACT))


class Control:
    """B copies of it; an episode is cut after LIMIT steps, and begins anywhere in [-1.5, 1.5]."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.x = self._start()
        self.age = torch.arange(NUM_ENVS) % LIMIT

    def rollout(self, policy: DenoisingPolicy, decisions: int) -> Rollout:
        """A block of decisions of the exploring policy."""
        builder = RolloutBuilder()
        for _ in range(decisions):
            obs = {"x": self.x[:, None, None].clone()}
            with torch.no_grad():
                chain = policy.sample(obs, self.generator)
            rew, next_obs = self._step(policy.to_env(obs, chain.act)[:, 0, 0].clamp(-1.0, 1.0))
            num_exec = torch.ones(NUM_ENVS, dtype=torch.int64)
            mask = executed_mask(num_exec, policy.horizon)
            columns = {
                "x": chain.x,
                "log_prob": (chain.log_prob * mask[:, None]).sum(dim=(2, 3)),
                "rew": rew,
                "terminated": torch.zeros(NUM_ENVS, dtype=torch.bool),
                "truncated": self.age == 0,
                "valid": torch.ones(NUM_ENVS, dtype=torch.bool),
                "discount": torch.full((NUM_ENVS,), GAMMA),
                "num_exec": num_exec,
            }
            builder.add(obs, next_obs, columns)
        return builder.finish({"x": self.x[:, None, None].clone()})

    def _step(self, act: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        rew = -(self.x.square() + act.square())
        after = self.x + act
        self.age = (self.age + 1) % LIMIT
        self.x = torch.where(self.age == 0, self._start(), after)
        return rew, {"x": after[:, None, None]}

    def _start(self) -> torch.Tensor:
        return 3.0 * torch.rand(NUM_ENVS, generator=self.generator) - 1.5


def gain(policy: DenoisingPolicy, generator: torch.Generator) -> float:
    """Least-squares slope of −a over x, of the evaluated policy in [-1, 1]."""
    x = torch.linspace(-1.0, 1.0, 41)
    with torch.no_grad():
        act = policy.act({"x": x[:, None, None]}, generator)[:, 0, 0]
    return float(-(act * x).sum() / x.square().sum())
