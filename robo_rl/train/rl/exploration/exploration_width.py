"""Width of exploration in physical units, announced with the first block of training.

Shapes: N decisions, E executed actions of a chunk, A act_dim.
"""

from __future__ import annotations

import torch
from torch import Tensor

from robo_rl.api.task import CommandsHand
from robo_rl.data.rollout import Rollout
from robo_rl.policy.base import DenoisingPolicy

ROWS = 1024
"""Number of decisions that are compared."""


def describe_exploration(policy: DenoisingPolicy, rollout: Rollout, task: object | None) -> str:
    """Return how far exploration moves the actions of a block, as one line.

    Explored actions are compared with those that the policy takes without noise from the same
    observation and the same x[0]. The line states the root mean square of the difference: at the
    hand in mm if the task knows where an action sends the hand, else by element in its unit; and
    in control steps if the policy knows what a control step moves.

    Args:
        policy: The policy that collected the block, before its update.
        rollout: The block.
        task: Task of the env; None without one.
    """
    explored, quiet = _actions(policy, rollout)
    if isinstance(task, CommandsHand) and not any(policy.act_spec.is_delta):
        hand = task.commanded_hand_pos(explored) - task.commanded_hand_pos(quiet)
        moved = f"the hand by {1e3 * hand.square().sum(dim=-1).mean().sqrt().item():.3g} mm"
    else:
        spec, found = policy.act_spec, _rms(explored - quiet).tolist()
        each = [f"{spec.element(i)} {x:.3g}{spec.unit_of(i)}" for i, x in enumerate(found)]
        moved = f"actions by {', '.join(each)}"
    return f"exploration moves {moved} rms{_in_steps(policy, explored - quiet)}"


@torch.no_grad()
def _actions(policy: DenoisingPolicy, rollout: Rollout) -> tuple[Tensor, Tensor]:
    """Return the executed actions with and without noise, each (N·E, A) in physical units."""
    x = rollout.rows(rollout.x)[:ROWS]
    obs = {name: rollout.rows(seen)[:ROWS] for name, seen in rollout.obs.items()}
    chunks = x[:, -1], policy.decode_normalized(obs, x[:, 0])
    explored, quiet = (policy.to_env(obs, chunk)[:, : policy.exec_horizon] for chunk in chunks)
    return explored.flatten(0, 1), quiet.flatten(0, 1)


def _rms(x: Tensor) -> Tensor:
    return x.square().mean(dim=0).sqrt()


def _in_steps(policy: DenoisingPolicy, moved: Tensor) -> str:
    step = policy.normalizer.affine("act").step
    if step is None or not bool((moves := step > 0).any()):
        return ""
    steps = _rms(moved)[moves] / step[moves]
    return f", {steps.quantile(0.5).item():.3g} of what a control step moves (median over elements)"
