"""Delta actions: the target of a tick as a change of the last target.

Shapes: n actions, in the order of the contract.

Changes count from the last target of the limiter: the last command, or the position of rest after
a hold, a stop or a stall. Three changes of the end effector's angles are one rotation vector in the
base frame, R' = exp([dr]) R, as in the training tasks (``robo_rl_tasks.deltas``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import BundleError
from robo_rl.core.rotations import nearest_rotvec, turn_between, turn_rotvec
from robo_rl.core.spec import ActSpec
from robo_rl_sim2real.control.commands.braking import Array, Limits


class DeltaActions(NamedTuple):
    """Converts between actions of which some are changes, and targets.

    Args:
        is_delta: (n,) bool, actions that are changes; the others are targets.
        low: (n,) lowest change.
        high: (n,) highest change.
        turn: Indices of the end effector's three angles; empty if they are no changes.
    """

    is_delta: NDArray[np.bool_]
    low: Array
    high: Array
    turn: tuple[int, ...] = ()

    def target(self, last: Array, act: Array) -> Array:
        """Return the target (n,) of an action (n,) after the last target (n,).

        Changes are clipped to their limits; an action that is not finite gives no finite target.
        """
        change = np.where(np.isfinite(act), np.clip(act, self.low, self.high), np.nan)
        target = np.where(self.is_delta, last + change, act)
        if self.turn:
            turn = list(self.turn)
            turned = turn_rotvec(last[turn], change[turn])
            target[turn] = nearest_rotvec(turned, last[turn])  # its limits then clip it near
        return target

    def action(self, last: Array, target: Array) -> Array:
        """Return the action (n,) that leads from the last target (n,) to a target (n,)."""
        act = np.where(self.is_delta, target - last, target)
        if self.turn:
            turn = list(self.turn)
            act[turn] = turn_between(last[turn], target[turn])
        return act


def delta_actions(act: ActSpec, turning: tuple[str, ...]) -> DeltaActions | None:
    """Return the conversion for a contract's actions; None if all are targets.

    Args:
        act: Spec of the actions.
        turning: Names of the end effector's three angles; empty for a robot without them.

    Raises:
        BundleError: Another reference, changes without limits, or a part of the three angles.
    """
    if {*act.references} - {"absolute", "delta"}:
        raise BundleError("act reference", expected="absolute or delta", found=act.reference)
    delta = np.array(act.is_delta)
    if not delta.any():
        return None
    if not (act.low and act.high):
        found = f"'{act.reference}' from {act.low} to {act.high}"
        raise BundleError("act reference", expected="absolute, or delta with limits", found=found)
    turn = tuple(act.names.index(name) for name in turning if name in act.names)
    turn = tuple(index for index in turn if delta[index])
    if len(turn) not in (0, 3):
        expected, found = ", ".join(turning), ", ".join(act.names[index] for index in turn)
        raise BundleError("act reference: part of a rotation", expected=expected, found=found)
    return DeltaActions(delta, np.array(act.low), np.array(act.high), turn)


def largest_lead(limits: Limits) -> Array:
    """Return the largest distance (n,) of the last target from the command.

    A target that starts at full speed v leads a command that accelerates at a by v²/2a, plus one
    tick. Without this bound, changes that the limits slow down would pile up, and the robot would
    go on moving after the policy has stopped.
    """
    return limits.velocity * (limits.dt_s + 0.5 * limits.velocity / limits.acceleration)
