"""The block of decisions that an actor learns from, and the kernels of its units.

Shapes: N decisions, R units of J denoising steps, H horizon, A act_dim, K denoising steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.algo.ppo.noise_history import NoiseHistory
from robo_rl.algo.ppo.ratio_units import Units
from robo_rl.data.rollout import Rollout, executed_mask
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Kernel

ROWS_AT_ONCE = 16384
"""How many rows of kernels are computed at once where no gradient is kept."""


class ActorBatch(NamedTuple):
    """What the actor's minibatches are cut from.

    Args:
        obs: Name → (N, To, …).
        x: (N, K+1, H, A), the chains.
        log_prob: (N, K), of the executed part, at the time of acting.
        adv: (N,), as the loss takes it.
        executed: (N, H, 1) bool, the actions of the chunk that were executed.
        noise_history: What the noise followed, where it is correlated in time.
    """

    obs: dict[str, Tensor]
    x: Tensor
    log_prob: Tensor
    adv: Tensor
    executed: Tensor
    noise_history: NoiseHistory | None = None

    @classmethod
    def of(cls, rollout: Rollout, adv: Tensor) -> ActorBatch:
        """The valid decisions of a block, with their advantages (N,)."""
        x = rollout.rows(rollout.x)
        return cls(
            {name: rollout.rows(tensor) for name, tensor in rollout.obs.items()},
            x,
            rollout.rows(rollout.log_prob),
            adv,
            executed_mask(rollout.rows(rollout.num_exec), x.shape[2]),
            NoiseHistory.of(rollout),
        )


def embed_units(policy: DenoisingPolicy, data: ActorBatch, units: Units) -> Tensor:
    """Embeddings (R·J, C) of units' observations; each observation is encoded once."""
    rows, place = units.row, None
    if not units.distinct:
        rows, inverse = units.row.unique(return_inverse=True)
        rows, place = (rows, inverse) if len(rows) < len(inverse) else (units.row, None)
    embedding = policy.encode({name: o[rows] for name, o in data.obs.items()})
    embedding = embedding if place is None else embedding.index_select(0, place)
    return embedding.repeat_interleave(units.k.shape[1], dim=0)


def unit_kernel(policy: DenoisingPolicy, data: ActorBatch, units: Units) -> Kernel:
    """The policy's kernel at every step of the units, given what came before, (R·J, H, A)."""
    terms = units.k.shape[1]
    rows, k = units.row.repeat_interleave(terms), units.k.flatten()
    kernel = policy.kernel(embed_units(policy, data, units), k, data.x[rows, k])
    if data.noise_history is None:
        return kernel
    return policy.correlate_noise(
        kernel, data.noise_history.noise(policy, units), data.noise_history.noise_continues[rows]
    )


def unit_log_prob(kernel: Kernel, data: ActorBatch, units: Units) -> Tensor:
    """Log-probability of the steps that the chains took, of the executed actions: (R, J)."""
    rows, k = units.row.repeat_interleave(units.k.shape[1]), units.k.flatten()
    return unit_sums(kernel.log_prob(data.x[rows, k + 1]), data, units)


@torch.no_grad()
def log_prob_of_all(policy: DenoisingPolicy, data: ActorBatch, units: Units) -> Tensor:
    """``unit_log_prob`` of all units of a block under a policy: (U, J)."""
    parts = slices(units)
    return torch.cat([unit_log_prob(unit_kernel(policy, data, u), data, u) for u in parts])


def unit_sums(elements: Tensor, data: ActorBatch, units: Units) -> Tensor:
    """Sums of elements (R·J, H, A) over the actions that were executed: (R, J)."""
    terms = units.k.shape[1]
    mask = data.executed[units.row.repeat_interleave(terms)]
    return (elements * mask).sum(dim=(1, 2)).view(-1, terms)


def copy_exploration(policy: DenoisingPolicy, other: DenoisingPolicy) -> DenoisingPolicy:
    """The policy itself, its noise from now on that of the other, which may be on a schedule."""
    policy.sampler, policy.correlation = other.sampler, other.correlation
    policy.progress = other.progress
    return policy


class KernelTable:
    """Another policy's kernels at all units of a block, computed once: (U, J, H, A).

    Args:
        policy: Whose.
        data: The block.
        units: All of its units.
    """

    @torch.no_grad()
    def __init__(self, policy: DenoisingPolicy, data: ActorBatch, units: Units) -> None:
        kernels = [unit_kernel(policy, data, part) for part in slices(units)]
        terms = units.k.shape[1]
        self._like = kernels[0]
        self.mean = torch.cat([k.mean for k in kernels]).unflatten(0, (-1, terms))
        stds = [k.std.expand(len(k.mean), *k.std.shape[1:]) for k in kernels]
        self.std = torch.cat(stds).unflatten(0, (-1, terms))

    def select(self, pick: Tensor) -> Kernel:
        """The kernels (R·J, H, A) of some units."""
        mean, std = (table[pick].flatten(0, 1) for table in (self.mean, self.std))
        return replace(self._like, mean=mean, std=std)


def slices(units: Units) -> Iterator[Units]:
    """All units, so many at a time that their steps are ``ROWS_AT_ONCE``."""
    size = max(1, ROWS_AT_ONCE // units.k.shape[1])
    for start in range(0, len(units.row), size):
        part = slice(start, start + size)
        yield Units(units.row[part], units.k[part], units.distinct)
