"""The objective of DiffusionNFT: a contrastive loss and a penalty towards the reference policy.

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
from robo_rl.policy.families.matching import MatchingPolicy


class NftObjectiveConfig(ConfigModel):
    """Settings of the loss; advantages have std 1 and are clipped at ``adv_clip``.

    A smaller ``beta`` β gives larger steps. ``self_normalized`` divides a row's action errors by
    their mean; otherwise the loss has the units of the cloning loss. ``time_sampling`` takes noise
    levels from the policy's denoising steps, or from the distribution of cloning.
    ``reference_coef`` weighs the squared distance to the reference policy's predictions.
    """

    beta: float = Field(default=1.0, gt=0.0)
    """Guidance β; a smaller β gives larger steps."""
    adv_clip: float = Field(default=5.0, gt=0.0)
    """Clip of the advantages, which have standard deviation 1."""
    self_normalized: bool = True
    """Whether a row's errors are divided by their mean absolute value."""
    time_sampling: Literal["denoising_steps", "bc"] = "denoising_steps"
    """Noise levels of the loss: those of the denoising steps, or those of behaviour cloning."""
    reference_coef: float = Field(default=1e-4, ge=0.0)
    """Weight of the squared distance from the reference policy's predictions."""


class NftLosses(NamedTuple):
    """Losses of a minibatch.

    Args:
        total: Scalar with gradient.
        action_shift_sq: Mean square difference of predicted actions to those at the start of the
            update.
        reference_mse: Mean square difference of predictions to the reference policy's.
    """

    total: Tensor
    action_shift_sq: Tensor
    reference_mse: Tensor

    def all_reduce(self, share: float) -> NftLosses:
        """Sum the losses over all processes, this one weighted by its share of the minibatch."""
        if rank_info().world_size == 1:
            return self
        return NftLosses(
            *all_reduce_sum(share * torch.stack([part.detach().float() for part in self]))
        )


class NftObjective:
    """The loss of the learner on data of the acting policy.

    Args:
        cfg: See ``NftObjectiveConfig``.
        acting: v_old; collected the data.
        learner: v_θ.
        started: v_θ at the start of the update, from which its shift is measured.
        generator: Draws noise and times.
    """

    def __init__(
        self,
        cfg: NftObjectiveConfig,
        acting: MatchingPolicy,
        learner: MatchingPolicy,
        started: MatchingPolicy,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.acting, self.generator = cfg, acting, generator
        self.learner, self.started = learner, started

    def loss(self, data: NftBatch, base: MatchingPolicy | None) -> NftLosses:
        """Return the losses of a minibatch, with one new noise and time per decision.

        Args:
            data: The minibatch.
            base: The reference policy; None without a reference penalty.
        """
        noise, t = self._draw(data.act)
        new = _errors(self.learner, data, noise, t)
        with torch.no_grad():
            old = _errors(self.acting, data, noise, t)
            start = _errors(self.started, data, noise, t)
            cloned = new.detach() if base is None else _errors(base, data, noise, t)
        level = self.acting.noise_fraction(t)[:, None, None]
        reference_mse = (new - cloned).square().mean()
        return NftLosses(
            self._contrastive_loss(new, old, level, data) + self.cfg.reference_coef * reference_mse,
            executed_mean((level * (new.detach() - start)).square(), data.executed).mean(),
            reference_mse.detach(),
        )

    def _contrastive_loss(self, new: Tensor, old: Tensor, level: Tensor, data: NftBatch) -> Tensor:
        """The paper's loss times the advantage clip, as in its code."""
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
        """Draw noise (B, H, A) and times (B,) as ``time_sampling`` selects."""
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
