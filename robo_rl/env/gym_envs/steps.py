"""Converts the shared-memory output of ``GymEnv``'s workers to ``Step`` tuples.

A *block* is a dict of tensors: ``next_obs.<name>`` (T, B, …), ``reset_obs.<name>`` (B, …), and
``rew``, ``success``, ``terminated``, ``truncated``, ``valid``, ``worker_restarts`` (T, B). A worker
stops an env where its episode ends and does not write the rows after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from robo_rl.api.env import Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from robo_rl.env.serve.shared_arrays import Arrays

    Block = dict[str, Tensor]

_FLAGS = ("rew", "success", "terminated", "truncated", "valid", "worker_restarts")


def copy_block(parts: Sequence[Arrays], steps: int) -> Block:
    """Copy the first ``steps`` steps of all workers' memory; each worker has some of the B envs."""
    import torch

    block: Block = {}
    for name in parts[0]:
        if name.startswith("reset_obs."):
            block[name] = torch.from_numpy(np.concatenate([part[name] for part in parts]))
        elif name not in ("act", "resting", "progress", "seq"):
            rows = [part[name][:steps] for part in parts]
            block[name] = torch.from_numpy(np.concatenate(rows, axis=1))
    block["worker_restarts"] = torch.zeros_like(block["rew"])
    return block


def cut_first_step(block: Block, ids: Sequence[int], fresh: dict[str, Tensor]) -> None:
    """Mark the envs ids as lost in the first step, and overwrite their output.

    Args:
        block: Changed in place.
        ids: Indices of the lost envs.
        fresh: Name → (B, …), the first observations of their new episodes.
    """
    for name in ("rew", "success", "terminated", "valid"):
        block[name][:, ids] = 0
    block["truncated"][:, ids] = True
    block["worker_restarts"][0, ids] = 1
    for name, obs in fresh.items():
        block[f"reset_obs.{name}"][ids] = obs[ids]


def block_steps(block: Block, before: dict[str, Tensor]) -> list[Step]:
    """Return the T steps of a block; before, name → (B, …), is the observation at its start.

    A cut step, truncated and not valid, has no successor: its ``next_obs`` is the observation
    before it.
    """
    over = (block["terminated"] | block["truncated"]).cumsum(0) > 0
    if over.any():
        obs, next_obs = _mask(block, before, over)
    else:
        next_obs = {name: block[f"next_obs.{name}"] for name in before}
        obs = {name: value.clone() for name, value in next_obs.items()}
    return [
        Step(
            obs={name: value[t] for name, value in obs.items()},
            next_obs={name: value[t] for name, value in next_obs.items()},
            rew=block["rew"][t],
            terminated=block["terminated"][t],
            truncated=block["truncated"][t],
            valid=block["valid"][t],
            metrics={name: block[name][t] for name in ("success", "worker_restarts")},
        )
        for t in range(len(over))
    ]


def _mask(block: Block, before: Block, over: Tensor) -> tuple[Block, Block]:
    """Clear the flags after an episode's end; return obs and next_obs, each name → (T, B, …).

    Args:
        block: Its flags are replaced.
        before: See ``block_steps``.
        over: (T, B) bool, the episode ended in this step or before.
    """
    import torch

    behind = torch.cat([torch.zeros_like(over[:1]), over[:-1]])
    for name in _FLAGS:
        block[name] = block[name].masked_fill(behind, 0)
    cut = block["truncated"] & ~block["valid"]
    obs: Block = {}
    next_obs: Block = {}
    for name, first in before.items():
        fresh, written = block[f"reset_obs.{name}"].unsqueeze(0), block[f"next_obs.{name}"]
        acted_on = torch.cat([first.unsqueeze(0), written[:-1]])
        written = torch.where(_like(cut, written), acted_on, written)
        next_obs[name] = torch.where(_like(behind, written), fresh, written)
        obs[name] = torch.where(_like(over, written), fresh, written)
    return obs, next_obs


def _like(mask: Tensor, array: Tensor) -> Tensor:
    """Return the mask (T, B) with axes of size 1 appended, to broadcast against array."""
    return mask.reshape(*mask.shape, *[1] * (array.ndim - mask.ndim))
