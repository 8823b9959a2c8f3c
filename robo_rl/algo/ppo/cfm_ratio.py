"""Flow policy optimisation: likelihood ratios from the cloning loss, without a chain.

Shapes: N decisions, M draws of noise and time each, R units of J draws, H horizon, A act_dim.

The cloning loss of a flow or diffusion policy is an upper bound of the negative log-likelihood of
an action, up to a constant. The log-ratio is the mean over draws (noise_j, t_j) of ℓ_old − ℓ_θ at
the executed action. Any sampler may draw the action, also the ODE. Source: FPO, McAllister et al.
2025, arXiv 2507.21053.

ℓ is the squared norm over the executed actions, in joint units; the paper's code takes means. The
ratio is one of bounds, not of likelihoods. Steps as large as for exact ratios degrade a policy, so
use a small ``clip`` and ``target_kl``.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.ppo.batch.actor_batch import ActorBatch, embed_units, slices, unit_sums
from robo_rl.algo.ppo.likelihood_ratio import LogRatios, k3
from robo_rl.algo.ppo.ratio_units import Units
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.families.matching import MatchingPolicy


class CfmLikelihood:
    """Ratios from cloning losses at stored draws; see ``likelihood_ratio.Likelihood``.

    Args:
        cfg: See Config.
        policy: The acting policy.
        data: The rollout's decisions.
        generator: Draws noise and times.
    """

    class Config(ConfigModel):
        """``num_samples`` is M; with ``per_sample`` every draw is a unit with its own ratio."""

        num_samples: int = Field(default=8, ge=1)
        """Draws of noise and time per decision."""
        per_sample: bool = False
        """Whether every draw has its own ratio."""

    units_per_decision = 1

    def __init__(
        self, cfg: Config, policy: DenoisingPolicy, data: ActorBatch, generator: torch.Generator
    ) -> None:
        policy, self.data = as_matching_policy(policy), data
        rows, draws = len(data.adv), cfg.num_samples
        act = data.x[:, -1].repeat_interleave(draws, dim=0)
        noise, time = policy.draw_noise(act, generator)
        self._noise, self._time = (v.unflatten(0, (rows, draws)) for v in (noise, time))
        row, j = (torch.arange(n, device=data.adv.device) for n in (rows, draws))
        self.units = Units(row, j.expand(rows, -1), distinct=True)
        if cfg.per_sample:
            self.units = Units(row.repeat_interleave(draws), j.repeat(rows)[:, None])
        self._old = self._losses_of_all(policy)

    def score(self, policy: DenoisingPolicy, pick: Tensor) -> LogRatios:
        """Return the ratios of units, without kernels."""
        log_ratio = (
            self._old[pick] - self._losses(as_matching_policy(policy), self.units.select(pick))
        ).mean(-1)
        return LogRatios(log_ratio, log_ratio, None, k3(log_ratio))

    def _losses(self, policy: MatchingPolicy, units: Units) -> Tensor:
        """ℓ at the units' draws: (R, J)."""
        rows, j = units.row.repeat_interleave(units.k.shape[1]), units.k.flatten()
        embedding = embed_units(policy, self.data, units)
        noise, time = self._noise[rows, j], self._time[rows, j]
        return unit_sums(
            policy.loss_at(embedding, self.data.x[rows, -1], noise, time), self.data, units
        )

    @torch.no_grad()
    def _losses_of_all(self, policy: MatchingPolicy) -> Tensor:
        return torch.cat(
            [self._losses(policy, part) for part in slices(self.units, policy, self.data.obs)]
        )


def as_matching_policy(policy: DenoisingPolicy) -> MatchingPolicy:
    """Return the policy if it is a flow or diffusion policy that trains its whole chain.

    Raises:
        ConfigError: It is another family, or trains only some denoising steps.
    """
    if not isinstance(policy, MatchingPolicy):
        raise ConfigError(
            "ratio 'cfm' needs a policy that is cloned by undoing noise",
            expected="flow or diffusion",
            found=policy.family,
            hint="its likelihood is exact: use ratio 'joint'",
        )
    if policy.cfg.finetune_steps:
        raise ConfigError(
            "ratio 'cfm' trains the whole chain",
            expected="finetune_steps 0",
            found=policy.cfg.finetune_steps,
        )
    return policy
