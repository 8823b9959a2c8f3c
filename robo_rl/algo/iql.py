"""Implicit Q-learning: what actions are worth, from data alone and of actions that are in it.

Shapes: B rows of a batch, M critics, H actions of a chunk, A act_dim. Source: Kostrikov, Nair &
Levine 2021 (arXiv 2110.06169), over whole chunks:

    V(o)    ← the expectile τ of Q'(o, a) over the data's actions                        (eq. 5)
    Q(o, a) ← rew + discount·(1 − terminated)·V(o')                                      (eq. 6)

with Q' an average of the critics' weights. No action is asked for that is not in the data, so
nothing is learnt from values that nobody has seen.

Of data that are partly wrong the robust variant learns more (Yang et al. 2023, arXiv 2310.12955):
``critic.head.kind: huber`` holds rewards and successors that are far off, and a rule
``quantile`` over four or more critics takes a low quantile of theirs for Q', not the least.
"""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.descent import Descent
from robo_rl.algo.ema import Follower
from robo_rl.config import ConfigModel
from robo_rl.critic.aggregate import Aggregate
from robo_rl.critic.q import QCritic, td_target
from robo_rl.critic.value import ValueCritic
from robo_rl.data.transitions import Transitions
from robo_rl.policy.base import DenoisingPolicy


class Iql:
    """Critics of the data's own actions.

    Args:
        cfg: See Config.
        policy: Whose observations, chunks and normaliser they share.
        generator: Of the rule.
    """

    class Config(ConfigModel):
        """Hyper-parameters.

        ``expectile`` τ: 0.5 values what the data do on average, 1 the best that is in them.
        ``target_ema`` is the decay of Q', ``rule`` makes one value of its members'.
        """

        expectile: float = Field(default=0.7, ge=0.5, lt=1.0)
        minibatch: int = Field(default=256, ge=1)
        lr: float = Field(default=3e-4, gt=0.0)
        grad_clip: float = Field(default=10.0, gt=0.0)
        target_ema: float = Field(default=0.995, ge=0.0, lt=1.0)
        critic: QCritic.Config = QCritic.Config(members=2)
        rule: Aggregate.Config = Aggregate.Config()
        value: ValueCritic.Config = ValueCritic.Config()

    def __init__(self, cfg: Config, policy: DenoisingPolicy, generator: torch.Generator) -> None:
        self.cfg, self.generator = cfg, generator
        self.critic = QCritic(
            cfg.critic,
            policy.obs_spec,
            policy.act_spec,
            obs_horizon=policy.obs_horizon,
            exec_horizon=policy.exec_horizon,
            normalizer=policy.normalizer,
        )
        self.value = ValueCritic(cfg.value, policy.obs_spec, policy.obs_horizon, policy.normalizer)
        self.target = Follower(self.critic, cfg.target_ema)
        self.rule = Aggregate(cfg.rule, cfg.critic.members)
        self.descents = {
            "critic": Descent(self.critic.net.parameters(), cfg.lr, cfg.grad_clip),
            "value": Descent(self.value.net.parameters(), cfg.lr, cfg.grad_clip),
        }

    def step(self, batch: Transitions) -> dict[str, float]:
        """One step of both; returns losses and the mean value.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        act = batch.judged_act(self.generator)
        with torch.no_grad():
            worth = self.worth(batch.obs, act, self.generator)
        missing = worth - self.value(batch.obs)
        value_loss = expectile_loss(missing, self.cfg.expectile).mean()
        self.descents["value"].step(value_loss)
        with torch.no_grad():
            ahead = self.value(batch.next_obs)
            wanted = td_target(batch.rew, batch.discount, batch.terminated, ahead)
        critic_loss = self.critic.loss(batch.obs, act, wanted).sum(dim=0).mean()
        self.descents["critic"].step(critic_loss)
        self.target.update(self.critic)
        found = {"value_loss": value_loss, "critic_loss": critic_loss, "value": ahead.mean()}
        return {name: float(value.detach()) for name, value in found.items()}

    @torch.no_grad()
    def advantage(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Q'(o, a) − V(o) of chunks (B, H, A) in network units: (B,).

        The generator is the caller's, for the rule: what is drawn from it comes back with it.
        """
        return self.worth(obs, act, generator) - self.value(obs)

    def worth(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Q'(o, a) likewise; (B,) with gradients by the chunks where they have them."""
        return self.rule(self.target.module(obs, act), generator)

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints."""
        return {
            "critic": self.critic.net.state_dict(),
            "value": self.value.net.state_dict(),
            "target": self.target.state_dict(),
            "optim": {name: d.optim.state_dict() for name, d in self.descents.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.critic.net.load_state_dict(state["critic"])
        self.value.net.load_state_dict(state["value"])
        self.target.load_state_dict(state["target"])
        for name, descent in self.descents.items():
            descent.optim.load_state_dict(state["optim"][name])


def expectile_loss(missing: Tensor, expectile: float) -> Tensor:
    """|τ − 1(u < 0)|·u² of u, by how much the value is too low (eq. 5): what is above weighs τ."""
    weight = torch.where(missing < 0.0, 1.0 - expectile, expectile)
    return weight * missing.square()
