"""Policy actions sampled once for every logged observation, because sampling is slow.

Shapes: D draws, N rows, B rows of a batch, E executed actions, A act_dim.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from robo_rl.core.spec import ActSpec, ObsSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.data.replay import Replay
from robo_rl.policy.base import DenoisingPolicy

_ASKED = 2048
"""Rows of one policy call."""


class EvaluablePolicy(Protocol):
    """The interface of a policy under off-policy evaluation."""

    env_spec: ObsSpec
    act_spec: ActSpec
    obs_horizon: int
    exec_horizon: int
    normalizer: Normalizer

    def act(self, obs: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        """Map observations, name → (B, To, …), to a chunk (B, H, A) in physical units."""
        ...


class CachedPolicyActions:
    """Caches several sampled chunks of a fixed policy for every row.

    Args:
        policy: The policy under its evaluation sampler.
        replay: The rows.
        draws: D.
        generator: Source of the policy's noise.
    """

    def __init__(
        self, policy: EvaluablePolicy, replay: Replay, draws: int, generator: torch.Generator
    ) -> None:
        self._policy, self._replay = policy, replay
        self._acts = torch.stack([self._asked(generator) for _ in range(draws)])

    def sample(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Return one random cached chunk per row (B,), in network units: (B, E, A)."""
        which = torch.randint(
            len(self._acts), (len(rows),), generator=generator, device=generator.device
        )
        return self._acts[which.to(rows.device), rows]

    def all(self, rows: Tensor) -> Tensor:
        """Return all cached chunks of rows (B,): (D, B, E, A)."""
        return self._acts[:, rows]

    @torch.no_grad()
    def _asked(self, generator: torch.Generator) -> Tensor:
        """Sample one chunk per row of the replay: (N, E, A)."""
        rows = torch.arange(self._replay.rows).split(_ASKED)
        executed = self._policy.exec_horizon
        return torch.cat(
            [
                act_normalized(self._policy, self._replay.transitions(each).obs, generator)[
                    :, :executed
                ]
                for each in rows
            ]
        )


def draw_candidates(
    policy: DenoisingPolicy, obs: dict[str, Tensor], generator: torch.Generator
) -> Tensor:
    """Return chunks (B, H, A) in network units that differ where observations are equal.

    They are those of evaluation, from drawn noise. A policy that maps no noise explores instead.
    """
    if policy.maps_noise:
        return act_normalized(policy, obs, generator)
    return policy.sample(obs, generator).act


def act_normalized(
    policy: EvaluablePolicy, obs: dict[str, Tensor], generator: torch.Generator
) -> Tensor:
    """Return the policy's chunks (B, H, A) in network units."""
    return policy.normalizer.act_to_network(obs, policy.act(obs, generator))
