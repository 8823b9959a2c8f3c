"""The actor's batch of a rollout, and the kernels of its sample units.

Shapes: N decisions, R units of J denoising steps, H horizon, A act_dim, K denoising steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.algo.ppo.batch.chain_replay import ChainReplay
from robo_rl.algo.ppo.batch.noise_history import NoiseHistory
from robo_rl.algo.ppo.ratio_units import Units
from robo_rl.data.rollout import Rollout, executed_mask
from robo_rl.nets.embedding import Embedding, repeat_rows, select_rows
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Kernel


class ActorBatch(NamedTuple):
    """The decisions that the actor's minibatches are drawn from.

    Args:
        obs: Observations of N rows.
        x: (N, K+1, H, A), the chains.
        log_prob: (N, K), of the executed actions, under the acting policy.
        adv: (N,), advantages.
        executed: (N, H, 1) bool, the actions of the chunk that were executed.
        noise_history: Data for temporally correlated noise; None without correlation.
        replay: Noise of the chains, if a policy is scored at the states that it reaches from this
            noise; None if it is scored at the stored states.
    """

    obs: EncodedObs
    x: Tensor
    log_prob: Tensor
    adv: Tensor
    executed: Tensor
    noise_history: NoiseHistory | None = None
    replay: ChainReplay | None = None

    @classmethod
    def of(cls, rollout: Rollout, adv: Tensor, frozen: DenoisingPolicy | None = None) -> ActorBatch:
        """Return the valid decisions of a rollout, with their advantages (N,).

        Args:
            rollout: The rollout.
            adv: (N,).
            frozen: Policy whose encoder is frozen, and encodes now; None if it is trained.
        """
        x, whole = rollout.rows(rollout.x), EncodedObs(_flat(rollout.obs))
        whole = whole if frozen is None else whole.through(frozen)
        return cls(
            whole.select(rollout.valid_rows),
            x,
            rollout.rows(rollout.log_prob),
            adv,
            executed_mask(rollout.rows(rollout.num_exec), x.shape[2]),
            NoiseHistory.of(rollout, whole),
        )

    def replayed(self, policy: DenoisingPolicy) -> ActorBatch:
        """Return the batch with replays of its chains, which ``policy`` sampled."""
        history = self.noise_history
        return self._replace(
            replay=ChainReplay.of(policy, self.obs, self.x),
            noise_history=None if history is None else history.replayed(policy),
        )


def _flat(obs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return observations (T, B, To, …) as (T·B, To, …)."""
    return {name: tensor.flatten(0, 1) for name, tensor in obs.items()}


def embed_units(policy: DenoisingPolicy, data: ActorBatch, units: Units) -> Embedding:
    """Return embeddings of units' observations, R·J rows; each observation is encoded once."""
    rows, place = units.row, None
    if not units.distinct:
        rows, inverse = units.row.unique(return_inverse=True)
        rows, place = (rows, inverse) if len(rows) < len(inverse) else (units.row, None)
    embedding = data.obs.encode(policy, rows)
    embedding = embedding if place is None else select_rows(embedding, place)
    return repeat_rows(embedding, units.k.shape[1])


def unit_kernel(policy: DenoisingPolicy, data: ActorBatch, units: Units) -> Kernel:
    """Return the policy's kernel (R·J, H, A) at every step of the units.

    With temporally correlated noise, the kernel is conditional on the previous noise. With a replay
    of the chains, units hold the last step alone.
    """
    terms = units.k.shape[1]
    rows, k = units.row.repeat_interleave(terms), units.k.flatten()
    embedding, replay = embed_units(policy, data, units), data.replay
    x = data.x[rows, k] if replay is None else replay.last_state(policy, embedding, rows)
    kernel = policy.kernel(embedding, k, x)
    if data.noise_history is None:
        return kernel
    return policy.correlate_noise(
        kernel, data.noise_history.noise(policy, units), data.noise_history.noise_continues[rows]
    )


def unit_log_prob(kernel: Kernel, data: ActorBatch, units: Units) -> Tensor:
    """Log-probability (R, J) of the chains' steps, over the executed actions."""
    rows, k = units.row.repeat_interleave(units.k.shape[1]), units.k.flatten()
    return unit_sums(kernel.log_prob(data.x[rows, k + 1]), data, units)


@torch.no_grad()
def log_prob_of_all(policy: DenoisingPolicy, data: ActorBatch, units: Units) -> Tensor:
    """Return ``unit_log_prob`` of all units of a rollout: (U, J)."""
    parts = slices(units, policy, data.obs)
    return torch.cat([unit_log_prob(unit_kernel(policy, data, u), data, u) for u in parts])


def unit_sums(elements: Tensor, data: ActorBatch, units: Units) -> Tensor:
    """Return sums (R, J) of elements (R·J, H, A) over the executed actions."""
    terms = units.k.shape[1]
    mask = data.executed[units.row.repeat_interleave(terms)]
    return (elements * mask).sum(dim=(1, 2)).view(-1, terms)


def copy_exploration(policy: DenoisingPolicy, other: DenoisingPolicy) -> DenoisingPolicy:
    """Set a policy's sampler, noise correlation and progress to those of another; returns it."""
    policy.sampler, policy.correlation = other.sampler, other.correlation
    policy.progress = other.progress
    return policy


class KernelTable:
    """A policy's kernels at all units of a rollout, computed once: (U, J, H, A).

    Args:
        policy: The policy.
        data: The rollout's decisions.
        units: All of its units.
    """

    @torch.no_grad()
    def __init__(self, policy: DenoisingPolicy, data: ActorBatch, units: Units) -> None:
        kernels = [unit_kernel(policy, data, part) for part in slices(units, policy, data.obs)]
        self._all = kernels[0].join(kernels[1:])
        self._steps = torch.arange(units.k.shape[1], device=units.k.device)

    def select(self, pick: Tensor) -> Kernel:
        """Return the kernels (R·J, H, A) of these units."""
        return self._all.select((pick[:, None] * len(self._steps) + self._steps).flatten())


def slices(units: Units, policy: DenoisingPolicy, obs: EncodedObs) -> Iterator[Units]:
    """Yield all units in slices of at most ``EncodedObs.kernels_at_once`` steps."""
    size = max(1, obs.kernels_at_once(policy) // units.k.shape[1])
    for start in range(0, len(units.row), size):
        part = slice(start, start + size)
        yield Units(units.row[part], units.k[part], units.distinct)
