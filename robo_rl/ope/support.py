"""How far a policy's chunks are from any that were tried: what data can say of it, and what not.

Values are learnt from the data's actions, and between them they are guessed. A policy that is not
trained out does nearly what the data do, and fails by the difference; its values, smooth as they
are, do not show it (Levine, Kumar, Tucker & Fu 2020, arXiv 2005.01643, section 4.2, on what
estimates do outside of the data's support). So one looks directly: at a decision of a good episode,
how near is the policy's chunk to the nearest of those that were carried out in the likest
situations of other episodes, and how near is the chunk that the data have there itself? What it
does where the data went wrong is not compared: it had better be another thing.

Shapes: N decisions, Q of them looked at, O numbers of an observation, E executed actions,
A act_dim.
"""

from __future__ import annotations

import torch
from torch import Tensor

from robo_rl.algo.policy_samples import EvaluablePolicy, act_normalized
from robo_rl.core.errors import DataError
from robo_rl.data.replay import Replay

_LOOKED_AT, _KNOWN, _LIKE = 2048, 50_000, 16
"""Decisions that are compared, those that they are compared with, and how many of these are
like."""
_LEAST = 0.02
"""Distance, in normalised units of each number, below which nothing is strange: that of a policy
from logs in which all chunks are the same."""


@torch.no_grad()
def ood_distance(
    policy: EvaluablePolicy,
    replay: Replay,
    episode: Tensor,
    good: Tensor,
    generator: torch.Generator,
) -> float:
    """Mean distance of a policy's chunks from the nearest that was tried, over the data's own.

    1 is what the data themselves are to one another.

    Args:
        policy: As it is evaluated.
        replay: The data.
        episode: (N,) of which each row is.
        good: (N,) bool, whether that is a good one.
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
    names = tuple(policy.obs_spec.items)
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
    """The nearest of known observations: (Q, number).

    Args:
        asked: (Q, O).
        known: (N, O).
        own: (Q, N) bool, known ones that do not count.
        number: Fewer if there are fewer of any episode but its own.
    """
    apart = torch.cdist(asked, known).masked_fill(own, torch.inf)
    return apart.topk(min(number, int((~own).sum(dim=1).min())), largest=False).indices


def nearest_chunk_distance(act: Tensor, tried: Tensor) -> Tensor:
    """Distance of chunks (Q, E·A) from the nearest of their own (Q, n, E·A): (Q,)."""
    return (tried - act[:, None]).norm(dim=-1).amin(dim=1)


def _whole(replay: Replay, executed: int, generator: torch.Generator) -> Tensor:
    """Decisions that were carried out whole, in an order that is drawn; not too many."""
    rows = replay.decisions
    rows = rows[replay.transitions(rows).num_exec == executed]
    order = torch.randperm(len(rows), generator=generator)
    return rows[order[:_KNOWN].to(rows.device)]
