"""Support check: distance of a policy's chunks from the executed chunks of the data.

Values are learnt at the data's actions, and interpolated between them. An undertrained policy
deviates slightly from the data and fails. Smooth value estimates do not show this (Levine, Kumar,
Tucker & Fu 2020, arXiv 2005.01643, section 4.2, on estimates outside the data's support).

The check measures it directly at decisions of good episodes. It takes the chunks that were executed
in the most similar states of other episodes. It compares two distances to the nearest of these
chunks: that of the policy's chunk, and that of the data's own chunk. Decisions of failed episodes
are not compared, because the policy should differ there.

Shapes: N decisions, Q compared decisions, O elements of an observation, E executed actions, A
act_dim.
"""

from __future__ import annotations

import torch
from torch import Tensor

from robo_rl.algo.policy_samples import EvaluablePolicy, act_normalized
from robo_rl.core.errors import DataError
from robo_rl.data.replay import Replay

_LOOKED_AT, _KNOWN, _LIKE = 2048, 50_000, 16
"""Numbers of compared decisions, of known decisions, and of neighbours per decision."""
_LEAST = 0.02
"""Lower bound of distances per element, in normalised units.

It is the distance of a policy trained on logs with identical chunks.
"""


@torch.no_grad()
def ood_distance(
    policy: EvaluablePolicy,
    replay: Replay,
    episode: Tensor,
    good: Tensor,
    generator: torch.Generator,
) -> float:
    """Mean nearest-chunk distance of a policy, divided by that of the data.

    The value 1 is the distance of the data's chunks to one another.

    Args:
        policy: The policy under its evaluation sampler.
        replay: The data.
        episode: (N,), episode index of each row.
        good: (N,) bool, whether the row's episode is good.
        generator: Draws decisions and the policy's noise.

    Raises:
        DataError: No chunk was executed whole, or all are of one episode.
    """
    rows = _whole(replay, policy.exec_horizon, generator)
    looked_at = rows[good[rows]][:_LOOKED_AT]
    if not len(looked_at) or bool((episode[rows] == episode[looked_at[0]]).all()):
        steps = f"whole chunks of {policy.exec_horizon} steps"
        raise DataError(
            "a policy cannot be compared with the data's chunks",
            expected=f"{steps} in two episodes or more, one of them good",
            found="fewer",
        )
    known, asked = replay.transitions(rows), replay.transitions(looked_at)
    names = policy.env_spec.vector_names
    features, there = (policy.normalizer.features(each.obs, names) for each in (known, asked))
    tried = known.act[:, : policy.exec_horizon].flatten(1)
    act = act_normalized(policy, asked.obs, generator)
    own = episode[looked_at][:, None] == episode[rows][None]
    like = nearest_states(there, features, own)
    theirs = nearest_chunk_distance(act[:, : policy.exec_horizon].flatten(1), tried[like]).mean()
    ours = nearest_chunk_distance(
        asked.act[:, : policy.exec_horizon].flatten(1), tried[like]
    ).mean()
    least = _LEAST * tried.shape[1] ** 0.5
    return float(theirs.clamp(min=least) / ours.clamp(min=least))


def nearest_states(asked: Tensor, known: Tensor, own: Tensor, number: int = _LIKE) -> Tensor:
    """Return indices of the nearest known observations: (Q, number).

    Args:
        asked: (Q, O).
        known: (N, O).
        own: (Q, N) bool, mask of known observations to exclude.
        number: Number of neighbours; fewer if other episodes have fewer.
    """
    apart = torch.cdist(asked, known).masked_fill(own, torch.inf)
    return apart.topk(min(number, int((~own).sum(dim=1).min())), largest=False).indices


def nearest_chunk_distance(act: Tensor, tried: Tensor) -> Tensor:
    """Distance (Q,) of chunks (Q, E·A) to the nearest of their neighbours (Q, n, E·A)."""
    return (tried - act[:, None]).norm(dim=-1).amin(dim=1)


def _whole(replay: Replay, executed: int, generator: torch.Generator) -> Tensor:
    """Return decisions that were executed whole, in random order, at most ``_KNOWN``."""
    rows = replay.decisions
    rows = rows[replay.transitions(rows).num_exec == executed]
    order = torch.randperm(len(rows), generator=generator)
    return rows[order[:_KNOWN].to(rows.device)]
