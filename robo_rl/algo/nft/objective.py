"""What DiffusionNFT descends: good and bad actions drawn apart, near the cloned policy.

Shapes: B decisions, H horizon, A act_dim.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.nft.forward_process import NftBatch, executed_mean, nft_loss
from robo_rl.config.models import ConfigModel
from robo_rl.distributed.process_group import all_reduce_sum, rank_info
from robo_rl.policy.matching import MatchingPolicy


class NftObjectiveConfig(ConfigModel):
    """Settings of the loss; advantages have std 1 and are clipped at ``adv_clip``.

    ``beta`` is β: the smaller, the farther an update aims. ``self_normalized`` divides a row's
    errors of the action by their mean; without it the loss is in the units of cloning. ``time_sampling``
    draws the noise levels of the policy's denoising steps, or all that cloning draws. ``reference_coef``
    weighs the squared distance from the cloned policy's predictions.
    """

    beta: float = Field(default=1.0, gt=0.0)
    """Guidance β; the smaller, the farther an update aims."""
    adv_clip: float = Field(default=5.0, gt=0.0)
    """Bound of advantages of standard deviation 1."""
    self_normalized: bool = True
    """Whether a row's errors are divided by their mean."""
    time_sampling: Literal["denoising_steps", "bc"] = "denoising_steps"
    """Whether noise levels are those of the denoising denoising_steps or those of cloning."""
    reference_coef: float = Field(default=1e-4, ge=0.0)
    """Weight of the squared distance from the cloned policy's predictions."""


class NftLosses(NamedTuple):
    """Of a minibatch.

    Args:
        total: Scalar with gradient.
        action_shift_sq: Mean square by which predicted actions differ from the acting policy's.
        reference_mse: Mean square by which predictions differ from the cloned policy's.
    """

    total: Tensor
    action_shift_sq: Tensor
    reference_mse: Tensor

    def all_reduce(self, share: float) -> NftLosses:
        """Its numbers over the minibatches of all processes, of which this one's is a share."""
        if rank_info().world_size == 1:
            return self
        return NftLosses(
            *all_reduce_sum(share * torch.stack([part.detach().float() for part in self]))
        )


class NftObjective:
    """The loss of a learner beside the policy that acts.

    Args:
        cfg: See ``NftObjectiveConfig``.
        acting: v_old; the data are its.
        learner: v_θ.
        generator: Draws noise and times.
    """

    def __init__(
        self,
        cfg: NftObjectiveConfig,
        acting: MatchingPolicy,
        learner: MatchingPolicy,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.acting, self.learner, self.generator = cfg, acting, learner, generator

    def loss(self, data: NftBatch, base: MatchingPolicy | None) -> NftLosses:
        """Over decisions, at one freshly drawn noise and time each.

        Args:
            data: The minibatch.
            base: The cloned policy, where it is to be stayed near.
        """
        noise, t = self._draw(data.act)
        new = _errors(self.learner, data, noise, t)
        with torch.no_grad():
            old = _errors(self.acting, data, noise, t)
            cloned = new.detach() if base is None else _errors(base, data, noise, t)
        level = self.acting.noise_fraction(t)[:, None, None]
        reference_mse = (new - cloned).square().mean()
        return NftLosses(
            self._contrastive_loss(new, old, level, data) + self.cfg.reference_coef * reference_mse,
            executed_mean((level * (new.detach() - old)).square(), data.executed).mean(),
            reference_mse.detach(),
        )

    def _contrastive_loss(self, new: Tensor, old: Tensor, level: Tensor, data: NftBatch) -> Tensor:
        """The paper's loss times the clip of its advantages, as its code has it."""
        unit = level if self.cfg.self_normalized else torch.ones_like(level)
        rows = nft_loss(
            unit * new,
            unit * old,
            data.optimality,
            data.executed,
            beta=self.cfg.beta,
            self_normalized=self.cfg.self_normalized,
        )
        return self.cfg.adv_clip * rows.mean()

    def _draw(self, act: Tensor) -> tuple[Tensor, Tensor]:
        """Noise (B, H, A) and times (B,): where the chain asks the network, or anywhere."""
        noise, t = self.acting.draw_noise(act, self.generator)
        if self.cfg.time_sampling == "bc":
            return noise, t
        trained = self.acting.num_trained
        times = self.acting.eval_sampler.times[-trained:]
        pick = torch.randint(
            trained, (len(act),), generator=self.generator, device=self.generator.device
        )
        return noise, times.to(pick.device, non_blocking=True)[pick].to(act)


def _errors(policy: MatchingPolicy, data: NftBatch, noise: Tensor, t: Tensor) -> Tensor:
    return policy.residual_at(policy.encode(data.obs), data.act, noise, t)
