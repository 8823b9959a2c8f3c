"""Temporally correlated exploration: a decision's noise follows the previous decision's noise.

Shapes: B rows, K denoising steps, H horizon, A act_dim. Within an episode the noise z of x[0] and
of each step is a stationary first-order autoregression over decisions, z' = β·z + √(1−β²)·ξ. An
episode starts with new noise. The marginal of z' is standard normal, so each decision keeps its
marginal distribution.

The score is that of the law *given* the previous decision, N(mean + σ·β·z, σ²·(1−β²)). Scores of
the marginals would be biased: the state depends on the earlier noise, so their mean is not zero.

The previous noise z is (x[k+1] − mean)/σ of the previous decision, under the scored policy rather
than as it was sampled. The policy thus acts on the last two observations and the last chain. The
gradient includes the effect of the previous mean on z. The likelihood ratios of an episode's
decisions then multiply to that of the episode, and the policy gradient is unbiased (autoregressive
policies: Korenkevych et al. 2019, arXiv 1903.11524).

The cost is a second network pass over the rollout. The critic does not see z; it averages over it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from robo_rl.policy.chain import PreviousNoise, row_correlation
from robo_rl.policy.schedule import Scheduled, Share, ShareBelowOne, start_value


class Correlation(Scheduled):
    """Correlation β of a decision's noise with the previous decision's; 0 is independent.

    ``start`` is that of x[0], which is not scored and may be constant over an episode (1).
    ``noise`` is that of every step's noise.
    """

    start: Share = 0.0
    """Correlation of a chain's initial noise."""
    noise: ShareBelowOne = 0.0
    """Correlation of the noise of every step."""

    @property
    def enabled(self) -> bool:
        """Whether any correlation is above 0."""
        return start_value(self.start) > 0.0 or start_value(self.noise) > 0.0


def correlate_start(fresh: Tensor, past: PreviousNoise, beta: float) -> Tensor:
    """Return x[0] (B, H, A), correlated with the previous one in rows that continue."""
    share = row_correlation(past.continues, beta, fresh)
    return share * past.start + (1.0 - share**2).sqrt() * fresh


def zero_previous_noise(
    rows: int, num_steps: int, horizon: int, act_dim: int, device: torch.device | str = "cpu"
) -> PreviousNoise:
    """Return the previous noise at the start of B episodes: zeros that do not continue."""
    noise = torch.zeros(rows, num_steps, horizon, act_dim, device=device)
    return PreviousNoise(noise[:, 0], noise, torch.zeros(rows, dtype=torch.bool, device=device))
