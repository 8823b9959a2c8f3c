"""Actions relative to an observation: displacements from the measured state of the robot.

Shapes: B rows, To observations of history, H actions of a chunk, A act_dim, n ≤ A elements of the
reference.

The env takes absolute targets. The policy's network works on the difference between a target and
the latest measurement, such as joint targets minus joint positions. Openpi (arXiv 2410.24164) and
UMI (2402.10329) represent actions in this way. Displacements of a chunk span a far smaller range
than targets, so the same relative error of the network is a smaller error of the robot.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.spec import ActSpec, ObsSpec


def relative_reference(obs: Tensor, act: Tensor) -> Tensor:
    """Return the reference (B, 1, A) of act (B, H, A): the latest of obs (B, To, n), then 0."""
    latest = obs[:, -1:].to(act)
    return F.pad(latest, (0, act.shape[-1] - latest.shape[-1]))


def check_relative(relative_to: str, obs_spec: ObsSpec, act_spec: ActSpec, fitted_to: str) -> None:
    """Check that the leading elements of an action have the unit and size of an observation.

    Args:
        relative_to: Name of the observation; empty for absolute actions.
        obs_spec: One step's observation.
        act_spec: One step's action.
        fitted_to: What the actions of the normaliser's statistics are relative to.

    Raises:
        ConfigError: The statistics are of other actions.
        SpecError: There is no such observation, its shape or its unit differ, or actions are
            relative already.
    """
    if fitted_to != relative_to:
        raise ConfigError(
            "the normaliser's statistics are of other actions",
            where="policy.relative_to",
            expected=relative_to or "absolute actions",
            found=fitted_to or "absolute actions",
            hint="clone the policy anew",
        )
    if not relative_to:
        return
    item = obs_spec.items.get(relative_to)
    if item is None:
        raise SpecError(
            "no observation for actions to be relative to",
            where="policy.relative_to",
            expected=", ".join(obs_spec.items),
            found=relative_to,
        )
    fits = len(item.shape) == 1 and item.size <= act_spec.size and "float" in item.dtype
    if not fits or any(item.unit_of(i) != act_spec.unit_of(i) for i in range(item.size)):
        raise SpecError(
            "actions cannot be relative to this observation",
            where="policy.relative_to",
            expected=f"the first elements of actions {act_spec.shape} in '{act_spec.unit}'",
            found=f"'{relative_to}' {item.shape} in '{item.unit}'",
        )
    if any(act_spec.is_delta):
        raise SpecError(
            "actions of the env are relative already",
            where="policy.relative_to",
            expected="absolute actions",
            found=act_spec.reference,
            hint="leave relative_to out",
        )


def relative_rows(obs: Tensor, act: Tensor) -> Tensor:
    """Return the displacements (B·H, A) of chunks act (B, H, A) from obs (B, To, n)."""
    return torch.flatten(act - relative_reference(obs, act), 0, 1)
