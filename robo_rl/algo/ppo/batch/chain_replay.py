"""Replay of chains from their noise: the policy of the ratio ``noise_conditioned``.

Shapes: N decisions, R rows, K denoising steps of which the last K' are trained, H horizon, A
act_dim.

Given its noise, a chain up to x[K−1] is a deterministic function of the observation. The noise then
belongs to the state, and the policy is the Gaussian kernel of the last step. Gradients flow through
all trained steps, because x[k+1] = mean + std·noise. The law of the noise does not depend on the
weights, so the ratio of the last kernel is exact. Source: NCDPO, Yang et al. 2025, arXiv
2505.10482.

Steps before the last K' run on the frozen reference network, so a replay starts at their result.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.nets.embedding import Embedding
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.kernels.gaussian import GaussianKernel


class ChainReplay(NamedTuple):
    """What determines x[K−1] of N decisions, apart from observations and weights.

    Args:
        first: K − K', the first trained step.
        start: (N, H, A), the state before it.
        noise: (N, K'−1, H, A), unit-variance noise of the trained steps but the last; 0 at
            deterministic steps.
    """

    first: int
    start: Tensor
    noise: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, policy: DenoisingPolicy, obs: EncodedObs, x: Tensor) -> ChainReplay:
        """Recover the noise of chains.

        Args:
            policy: The policy that sampled the chains.
            obs: N rows.
            x: (N, K+1, H, A), the chains.
        """
        first, parts = policy.num_steps - policy.num_trained, list[Tensor]()
        size = obs.kernels_at_once(policy)
        for start in range(0, len(x), size):
            rows = slice(start, start + size)
            embedding = obs.encode(policy, rows)
            parts.append(_recover_noise(policy, embedding, x[rows], first))
        return cls(first, x[:, first], torch.cat(parts))

    def last_state(self, policy: DenoisingPolicy, embedding: Embedding, rows: Tensor) -> Tensor:
        """Return x[K−1] of a policy at the decisions ``rows`` (R,), with gradient: (R, H, A).

        Args:
            policy: Any policy with the same sampler.
            embedding: Its embedding of their observations, R rows.
            rows: Indices of decisions.
        """
        x, noise = self.start[rows], self.noise[rows]
        for step in range(noise.shape[1]):
            x = _kernel(policy, embedding, self.first + step, x).from_noise(noise[:, step])
        return x


def _recover_noise(policy: DenoisingPolicy, embedding: Embedding, x: Tensor, first: int) -> Tensor:
    noises = [
        _kernel(policy, embedding, step, x[:, step]).noise(x[:, step + 1])[:, None]
        for step in range(first, policy.num_steps - 1)
    ]
    return torch.cat([x[:, :0], *noises], dim=1)


def _kernel(policy: DenoisingPolicy, embedding: Embedding, step: int, x: Tensor) -> GaussianKernel:
    k = torch.full((len(x),), step, device=x.device)
    return cast(GaussianKernel, policy.kernel(embedding, k, x))  # check_policy_supports
