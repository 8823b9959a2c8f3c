"""Exploration that is smooth in time: a decision's noise follows that of the decision before it.

Shapes: B rows, K denoising steps, H horizon, A act_dim. Within an episode the noise z of x[0] and
of each step is a stationary first-order autoregression over decisions, z' = β·z + √(1−β²)·ξ, drawn
anew where an episode begins. Taken by itself each decision keeps its law: z' is standard normal.

What is scored is the law *given* the decision before, N(mean + σ·β·z, σ²·(1−β²)). Scores of
independent draws would not do: given where it is the robot can tell what noise brought it here, so
that their mean is not zero and they credit a decision with what the one before it began. The noise
z that came before is itself (x[k+1] − mean)/σ of the decision before, under the policy that is
scored and not as it was drawn: the policy acts on the last two observations and the last chain, and
the gradient also says that moving the mean of the decision before would have left less noise to go
on with. With that, likelihood ratios of an episode's decisions multiply to that of the episode, and
a policy gradient is unbiased (autoregressive policies: Korenkevych et al. 2019, arXiv 1903.11524).
It costs a second pass over the block. The critic is not shown z; it averages over it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from robo_rl.policy.chain import PreviousNoise, row_correlation
from robo_rl.policy.schedule import Scheduled, Share, ShareBelowOne, start_value


class Correlation(Scheduled):
    """β of a decision's noise with that of the decision before it, 0 where they are independent.

    ``start`` is that of x[0], which is not scored and may stay the same all episode (1); ``noise``
    is that of every step's noise.
    """

    start: Share = 0.0
    """Correlation of the noise that chains start from."""
    noise: ShareBelowOne = 0.0
    """Correlation of the noise of every step."""

    @property
    def enabled(self) -> bool:
        """Whether anything is correlated."""
        return start_value(self.start) > 0.0 or start_value(self.noise) > 0.0


def correlate_start(fresh: Tensor, past: PreviousNoise, beta: float) -> Tensor:
    """x[0] (B, H, A) that goes on from the decision before, in rows whose episode goes on."""
    share = row_correlation(past.continues, beta, fresh)
    return share * past.start + (1.0 - share**2).sqrt() * fresh


def zero_previous_noise(
    rows: int, num_steps: int, horizon: int, act_dim: int, device: torch.device | str = "cpu"
) -> PreviousNoise:
    """What the first decisions of B episodes follow: nothing."""
    noise = torch.zeros(rows, num_steps, horizon, act_dim, device=device)
    return PreviousNoise(noise[:, 0], noise, torch.zeros(rows, dtype=torch.bool, device=device))
