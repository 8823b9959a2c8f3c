"""DSRL: steers a frozen policy by its initial noise.

Every noise yields a chunk of the policy, so the search stays near the data of the critics. A noise
critic learns the value of the chunk that a noise yields. No gradient runs through the chain.
Source: Wagenmaker et al. 2025, DSRL, arXiv 2506.15799, algorithm 1, with noise aliasing.

    critics Q(o, a) ← rew + discount·(1 − terminated)·Q'(o', π(o', w')),  w' ~ actor(o')
    noise critic W(o, w) ← Q(o, π(o, w)),  w ~ N(0, I)
    actor    W(o, w) + entropy

The steered chunks are cloned (``ActionSearch``), so the result is a single policy without an actor
for its noise.

Shapes: B rows of a batch, H horizon, A act_dim.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.offline.action_search import ActionSearch
from robo_rl.algo.offline.auxiliary_actor import AuxiliaryActor
from robo_rl.algo.offline.base import OfflineInputs, check_eval_is_deterministic
from robo_rl.algo.offline_critics.td_critics import TdCritics
from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.core.errors import ConfigError
from robo_rl.core.seeding import seeded_initialization
from robo_rl.data.transitions import Transitions
from robo_rl.nets.ensemble import MlpEnsemble
from robo_rl.optim.optimizer import ClippedOptimizer, frozen_weights
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import randn


class Dsrl(ActionSearch):
    """Clones the chunks that the policy yields from an actor's noise.

    Args:
        cfg: See Config.
        inputs: See ``OfflineInputs``.
    """

    class Config(TdCritics.Config):
        """Noise bound, actor, noise critic, and cloning."""

        noise_bound: float = Field(default=0.5, gt=0.0)
        """Bound of the absolute value of the noise elements."""
        actor: AuxiliaryActor.Config = AuxiliaryActor.Config()
        """The actor that selects the initial noise of a chain."""
        noise_critic_lr: float = Field(default=1e-3, gt=0.0)
        """Learning rate of the noise critic."""
        optim: SupervisedTrainer.Config = SupervisedTrainer.Config(lr=3e-4)
        """Optimiser, learning-rate schedule and weight averaging."""

    state_parts = ("critics", "actor", "noise_critic", "optimizer")

    def __init__(self, cfg: Config, inputs: OfflineInputs) -> None:
        super().__init__(cfg, cfg.optim, cfg.minibatch, inputs)
        policy, self.critics = inputs.policy, TdCritics(cfg, inputs.critics)
        seen = self.critics.critic.features
        noise = policy.horizon * policy.act_spec.size
        device = policy.device
        with seeded_initialization("dsrl", self.generator.initial_seed()):
            self.actor = AuxiliaryActor(cfg.actor, seen, noise, cfg.noise_bound, device)
            sizes = [seen + noise, *cfg.actor.hidden, 1]
            self.noise_critic = MlpEnsemble(1, sizes, layer_norm=True).to(device)
        self.optimizer = ClippedOptimizer(
            self.noise_critic.parameters(), cfg.noise_critic_lr, cfg.grad_clip
        )

    @classmethod
    def check_policy(cls, cfg: Config, policy: DenoisingPolicy) -> None:
        """Refuse a policy with stochastic evaluation, or whose noise decides nothing."""
        check_eval_is_deterministic(policy.cfg, "dsrl chooses the noise of a chunk")
        if not policy.maps_noise:
            raise ConfigError(
                "algorithm 'dsrl' chooses a policy's noise, which decides nothing here",
                expected="policy flow or diffusion",
                found=f"policy '{policy.family}'",
                hint="awr, parl and expo improve any policy",
            )

    def search(self, batch: Transitions) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the steered chunks, the losses, and the mean value of the noise.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        with torch.no_grad():
            ahead = self.critics.next_q(
                batch.next_obs, self._steered(batch.next_obs), self.generator
            )
        found = {"critic_loss": self.critics.step(batch, ahead, self.generator)}
        seen = self.critics.critic.encode(batch.obs)
        found["noise_critic_loss"] = self._fit_noise_critic(batch.obs, seen)
        with frozen_weights(self.noise_critic):
            found["value"] = self.actor.update(
                seen, lambda w: self._noise_value(seen, w), self.generator
            )
        return self._steered(batch.obs), found

    @torch.no_grad()
    def _steered(self, obs: dict[str, Tensor]) -> Tensor:
        """The policy's chunks (B, H, A) for the actor's noise."""
        return self._decode(obs, self.actor.sample(self.critics.critic.encode(obs), self.generator))

    def _decode(self, obs: dict[str, Tensor], noise: Tensor) -> Tensor:
        """The policy's chunks (B, H, A) for noise (B, H·A)."""
        shape = (len(noise), self.inputs.policy.horizon, -1)
        return self.inputs.policy.decode_normalized(obs, noise.view(shape))

    def _fit_noise_critic(self, obs: dict[str, Tensor], seen: Tensor) -> Tensor:
        with torch.no_grad():
            noise = randn((len(seen), self.actor.outputs), self.generator)
            wanted = self.critics.q_value(obs, self._decode(obs, noise), self.generator)
        loss = (self._noise_value(seen, noise) - wanted).square().mean()
        self.optimizer.step(loss)
        return loss.detach()

    def _noise_value(self, seen: Tensor, noise: Tensor) -> Tensor:
        """Values W (B,) of noise (B, H·A) at encoded observations (B, O)."""
        return self.noise_critic(torch.cat([seen, noise], dim=-1))[0, :, 0]
