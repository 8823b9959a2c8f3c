"""A rollout: a collected (T, B) block of decisions for on-policy learning.

Shapes: T decisions, B envs, N = T·B rows, To history, K denoising steps, H horizon, A act_dim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor


@dataclass
class Rollout:
    """Decisions of B envs over T chunks; tensors start with (T, B) unless stated otherwise.

    Args:
        obs: Name → (T, B, To, …), observations of the decisions.
        x: (T, B, K+1, H, A), the chains.
        log_prob: (T, B, K), of the executed part of the chunk at the time of acting.
        k_star: (T, B) the stochastic step of each chain, or None.
        rew: (T, B); terminated, truncated, valid: (T, B) bool.
        discount: (T, B), γ to the number of executed env steps.
        num_exec: (T, B) int64, env steps executed of the chunk.
        last_obs: Name → (B, To, …), observations after the last decision.
        ended: (E, 2) indices (t, b) of the decisions in which an episode ended.
        final_obs: Name → (E, To, …), their true successors.
        noise_continues: (T, B) bool, whether a decision's noise is correlated with that of the one
            before it; None without correlated exploration.
        initial_noise: (B, K, H, A), the noise before the first decisions, or None.
        shard: (T, B) int64, index of each env's shard; None for a run with one shard.
        policy_log_ratio: (T, B), ln of the acting policy's probability of the executed chain over
            that of the policy that sampled it; None if the acting policy sampled all of them.
    """

    obs: dict[str, Tensor]
    x: Tensor
    log_prob: Tensor
    k_star: Tensor | None
    rew: Tensor
    terminated: Tensor
    truncated: Tensor
    valid: Tensor
    discount: Tensor
    num_exec: Tensor
    last_obs: dict[str, Tensor]
    ended: Tensor
    final_obs: dict[str, Tensor]
    noise_continues: Tensor | None = None
    initial_noise: Tensor | None = None
    shard: Tensor | None = None
    policy_log_ratio: Tensor | None = None

    @property
    def shards(self) -> Tensor | None:
        """Shard (N,) of the valid rows."""
        return None if self.shard is None else self.rows(self.shard)

    def to(self, device: torch.device) -> Rollout:
        """Return the rollout on a device; the same tensors if they are there."""
        columns = {field.name: _placed(getattr(self, field.name), device) for field in fields(self)}
        return Rollout(**columns)

    def rows(self, tensor: Tensor) -> Tensor:
        """Fold (T, B, …) into the valid rows (N, …)."""
        return tensor.flatten(0, 1)[self.valid_rows]

    @cached_property
    def valid_rows(self) -> Tensor:
        """(N,) int64, the valid decisions among all T·B."""
        return self.valid.flatten().nonzero().flatten()


_ALONG_ENVS = ("last_obs", "final_obs", "ended", "initial_noise")  # all else starts with (T, B)


def join_rollouts(rollouts: Sequence[Rollout]) -> Rollout:
    """Return rollouts of equal T and with the same columns side by side, as one of ΣB envs."""
    sizes = [rollout.valid.shape[1] for rollout in rollouts]
    begins = accumulate([0, *sizes[:-1]])
    ended = [
        rollout.ended + torch.tensor([0, begin], device=rollout.ended.device)
        for rollout, begin in zip(rollouts, begins, strict=True)
    ]
    columns: dict[str, Any] = {
        field.name: _joined(
            [getattr(r, field.name) for r in rollouts], dim=int(field.name not in _ALONG_ENVS)
        )
        for field in fields(Rollout)
    }
    columns["ended"] = torch.cat(ended)
    return Rollout(**columns)


def _joined(values: Sequence[Any], dim: int) -> Any:
    first = values[0]
    if isinstance(first, Tensor):
        return torch.cat(list(values), dim=dim)
    if isinstance(first, dict):
        return {name: _joined([value[name] for value in values], dim) for name in first}
    return None


def _placed(value: Any, device: torch.device) -> Any:
    if isinstance(value, dict):
        return {name: each.to(device) for name, each in value.items()}
    return value.to(device) if isinstance(value, Tensor) else value


def executed_mask(num_exec: Tensor, horizon: int) -> Tensor:
    """Return the mask (…, H, 1) of executed actions from their number (…,)."""
    return (torch.arange(horizon, device=num_exec.device) < num_exec[..., None])[..., None]


class RolloutBuilder:
    """Collects decisions one by one; ``finish`` stacks them."""

    def __init__(self) -> None:
        self._steps: list[dict[str, Tensor]] = []
        self._obs: list[dict[str, Tensor]] = []
        self._next: list[dict[str, Tensor]] = []

    def add(
        self, obs: dict[str, Tensor], next_obs: dict[str, Tensor], columns: dict[str, Tensor]
    ) -> None:
        """Add one decision of all envs; ``columns`` are ``Rollout``'s fields without T axis."""
        self._next.append(next_obs)
        self._obs.append(obs)
        self._steps.append(columns)

    def finish(self, last_obs: dict[str, Tensor], initial_noise: Tensor | None = None) -> Rollout:
        """Return the rollout; ``initial_noise`` is that of ``Rollout``."""
        columns = {name: torch.stack([s[name] for s in self._steps]) for name in self._steps[0]}
        ended = (columns["terminated"] | columns["truncated"]).nonzero()
        after = {name: torch.stack([o[name] for o in self._next]) for name in last_obs}
        return Rollout(
            obs={name: torch.stack([o[name] for o in self._obs]) for name in last_obs},
            k_star=columns.pop("k_star", None),
            noise_continues=columns.pop("follows", None),
            initial_noise=initial_noise,
            last_obs=last_obs,
            ended=ended,
            final_obs={name: tensor[ended[:, 0], ended[:, 1]] for name, tensor in after.items()},
            **columns,
        )
