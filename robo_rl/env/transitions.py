"""Corrections of a step's rows: invalid transitions, and first observations of new episodes.

Shapes: B envs, T steps, n envs that began a new episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from robo_rl.api.env import TASK, Step


def where_rows(mask: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Return (B, …): rows of yes where mask (B,), else rows of no."""
    return torch.where(mask.view(-1, *[1] * (yes.ndim - 1)), yes, no)


def without_invalid(step: Step, lost: Tensor, before: Mapping[str, Tensor]) -> Step:
    """Neutralise invalid rows: zero reward, no end, the observation before the step.

    Their metrics are 0, but for the task of an episode.

    Args:
        step: ``valid`` marks the rows that count.
        lost: (B,) rows whose world was lost in this step: truncated, and counted in ``nan_worlds``.
        before: Name → (B, …) observations before the step.
    """
    valid, zero = step.valid, torch.zeros_like(step.rew)
    obs = {name: where_rows(valid, new, before[name]) for name, new in step.next_obs.items()}
    metrics = {
        name: value if name == TASK else torch.where(valid, value, zero)
        for name, value in step.metrics.items()
    }
    return Step(
        obs=obs,
        next_obs=obs,
        rew=torch.where(valid, step.rew, zero),
        terminated=step.terminated & valid,
        truncated=step.truncated & valid | lost,
        valid=valid,
        metrics=metrics | {"nan_worlds": lost.float()},
    )


def with_new_episodes(
    steps: Sequence[Step], ended: Sequence[Tensor], ids: Tensor, fresh: Mapping[str, Tensor]
) -> list[Step]:
    """Set ``obs`` to the new episode's first observation from an episode's end on.

    Args:
        steps: T steps of one sequence.
        ended: T masks (B,): the env's episode ended at this step or before.
        ids: (n,) envs whose episode ended.
        fresh: Name → (n, …) their observations at the start of the new episode.
    """
    masks = torch.stack([over[ids] for over in ended])
    renewed: list[Step] = []
    for step, mine, any_mine in zip(steps, masks, masks.any(dim=1).tolist(), strict=True):
        if any_mine:
            new = {k: where_rows(mine, fresh[k], v[ids]) for k, v in step.next_obs.items()}
            obs = {k: v.index_copy(0, ids, new[k]) for k, v in step.next_obs.items()}
            step = step._replace(obs=obs)
        renewed.append(step)
    return renewed
