"""PPO on denoising chains at logged observations, with advantages of offline critics.

The behaviour policy samples a chain at an observation of the data. IQL's critics give the advantage
of its action. The trained policy moves within a trust region around the behaviour policy, which is
updated at a fixed interval. No env is used.

Sources: Zhuang et al. 2023 (BPPO, arXiv 2302.11312); for denoising chains RL-100 (arXiv 2510.14830,
section on offline RL). RL-100 updates the behaviour policy at OPE gates; here the gate runs at the
end of the stage.

Shapes: N rows of a batch, K denoising steps, H horizon, A act_dim.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.offline.base import OfflineAlgorithm, OfflineInputs
from robo_rl.algo.ppo.objective import Objective, ObjectiveConfig, check_policy_supports
from robo_rl.algo.ppo.ratio_units import RatioMode
from robo_rl.core.errors import ConfigError
from robo_rl.data.rollout import Rollout, executed_mask
from robo_rl.optim.optimizer import ClippedOptimizer, OptimizerConfig
from robo_rl.optim.precision import autocast
from robo_rl.optim.scalars import read
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Chain

_LEAST = 1e-3
"""Minimum share of ε in the last steps, so that the trust region does not vanish."""


class Bppo(OfflineAlgorithm):
    """Raises the likelihood of chains with a high advantage.

    Args:
        cfg: See Config.
        inputs: See ``OfflineInputs``.

    Raises:
        ConfigError: The policy does not support the settings, or trains only some of its denoising
            steps.
    """

    class Config(ObjectiveConfig, OptimizerConfig):
        """Settings of the PPO objective and its optimiser; ``minibatch`` counts observations.

        Learning rate and ε fall linearly to 0. The behaviour policy takes the trained weights every
        ``behaviour_update_every`` steps. With 0 it stays the initial policy.
        """

        lr: float = Field(default=1e-4, gt=0.0)
        """Initial learning rate."""
        minibatch: int = Field(default=256, ge=2)
        """Observations of a minibatch."""
        behaviour_update_every: int = Field(default=100, ge=0)
        """Steps between updates of the behaviour policy; 0 is never."""

    state_parts = ("actor", "behaviour", "optimizer", "done")

    def __init__(self, cfg: Config, inputs: OfflineInputs) -> None:
        super().__init__(cfg, inputs)
        self.cfg, self.actor = cfg, deepcopy(inputs.policy)
        if cfg.regularization.needs_reference:
            self.actor.freeze_reference()
        self.behaviour = deepcopy(self.actor).requires_grad_(False)
        self._base = self.actor.reference_policy() if cfg.regularization.needs_reference else None
        params = (p for p in self.actor.parameters() if p.requires_grad)
        self.optimizer = ClippedOptimizer(params, cfg.lr, cfg.grad_clip)
        self.done = 0

    @property
    def policy(self) -> DenoisingPolicy:
        """The trained policy."""
        return self.actor

    @classmethod
    def check_policy(cls, cfg: Config, policy: DenoisingPolicy) -> None:
        """Check the objective's requirements, and that all denoising steps are trained."""
        check_policy_supports(cfg, policy)
        if policy.cfg.finetune_steps:
            raise ConfigError(
                "offline, PPO trains all denoising steps",
                where="policy.finetune_steps",
                expected=0,
                found=policy.cfg.finetune_steps,
                hint="set policy.finetune_steps=0",
            )

    def step(self) -> dict[str, float]:
        """Take one gradient step; returns loss, KL to the behaviour policy, and mean advantage.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        left = 1.0 - self.done / self.inputs.steps
        self.optimizer.set_lr(left * self.cfg.lr)
        obs = self.replay.sample(self.cfg.minibatch, self.generator).obs
        with torch.no_grad():
            one_step = self.cfg.ratio is RatioMode.SINGLE_STEP
            chain = self.behaviour.sample(obs, self.generator, single_step=one_step)
            adv = self.inputs.critics.advantage(obs, chain.act, self.generator)
        loss, kl = self._loss(_block(obs, chain, self.actor.exec_horizon), standardize(adv), left)
        self.optimizer.step(loss)
        self.done += 1
        if self.cfg.behaviour_update_every and self.done % self.cfg.behaviour_update_every == 0:
            self.behaviour.load_state_dict(self.actor.state_dict())
        return read({"loss": loss, "kl": kl, "advantage": adv.mean()})

    def _loss(self, block: Rollout, adv: Tensor, left: float) -> tuple[Tensor, Tensor]:
        """The surrogate loss with share ``left`` of ε, and the KL to the behaviour policy."""
        cfg, shares = self.cfg, ("clip", "clip_high", "clip_base")
        update = {name: max(left, _LEAST) * getattr(cfg, name) for name in shares}
        rule = cfg.model_copy(update=update)
        with autocast(cfg.precision, self.actor):
            objective = Objective(
                rule,
                self.actor,
                self._base,
                block,
                adv,
                self.generator,
                self.behaviour,
                closed_form_kl=False,
            )
            found = objective.loss(torch.arange(objective.size, device=adv.device))
        return found.loss, objective.likelihood.units_per_decision * found.kl.mean()


def standardize(adv: Tensor) -> Tensor:
    """Return advantages (N,) with mean 0 and std 1."""
    return (adv - adv.mean()) / adv.std().clamp(min=1e-6)


def _block(obs: dict[str, Tensor], chain: Chain, exec_horizon: int) -> Rollout:
    """A rollout of N logged observations, one decision each, with the sampled chains."""
    rows, horizon = chain.x.shape[0], chain.x.shape[2]
    whole = torch.ones(1, rows, device=chain.x.device)
    nothing = torch.zeros_like(whole, dtype=torch.bool)
    num_exec = torch.full_like(nothing, exec_horizon, dtype=torch.int64)
    mask = executed_mask(num_exec[0], horizon)[:, None]
    return Rollout(
        obs={name: tensor[None] for name, tensor in obs.items()},
        x=chain.x[None],
        log_prob=(chain.log_prob * mask).sum(dim=(2, 3))[None],
        k_star=None if chain.k_star is None else chain.k_star[None],
        rew=torch.zeros_like(whole),
        terminated=nothing,
        truncated=nothing,
        valid=~nothing,
        discount=whole,
        num_exec=num_exec,
        last_obs=obs,
        ended=torch.zeros(0, 2, dtype=torch.int64),
        final_obs={name: tensor[:0] for name, tensor in obs.items()},
    )
