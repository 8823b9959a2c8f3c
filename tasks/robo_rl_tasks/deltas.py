"""Delta actions of an arm: changes of the last command, per control step.

Shapes: B envs, J arm joints, M arm targets. The last command is the control that the arm's servos
hold, so it needs no memory beside the simulator's own. Both spaces have a counterpart in the field:

- Joints: changes of the last joint targets, as ManiSkill's ``pd_joint_target_delta_pos``.
- Hand: displacement in m and rotation vector in the base frame, as robosuite's ``OSC_POSE`` with
  the goal as reference: p' = p + dp, R' = exp([dr]) R.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from robo_rl import nearest_rotvec, turn_between, turn_rotvec
from robo_rl_tasks.device_copies import DeviceCopies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from robo_rl import ActSpec, CommandAxis
    from robo_rl_tasks.kinematics.cartesian_controller import CartesianController


class Deltas(Protocol):
    """Converts between targets (B, M) of an arm and changes (B, M) of its last target."""

    def last(self, joints: Tensor) -> Tensor:
        """Return the last target (B, M) of an arm with joint targets (B, J)."""
        ...

    def moved(self, last: Tensor, change: Tensor) -> Tensor:
        """Return the target after a change, within its limits."""
        ...

    def change(self, last: Tensor, target: Tensor) -> Tensor:
        """Return the change that leads from the last target to another one."""
        ...


class JointDeltas:
    """Changes of joint targets, in rad.

    Args:
        axes: (J,) joints with their limits.
    """

    def __init__(self, axes: Sequence[CommandAxis]) -> None:
        self._limits = Limits(axes)

    def last(self, joints: Tensor) -> Tensor:
        """Return the joint targets (B, J)."""
        return joints

    def moved(self, last: Tensor, change: Tensor) -> Tensor:
        """Return joint targets (B, J) after a change (B, J)."""
        return self._limits.clamp(last + change)

    def change(self, last: Tensor, target: Tensor) -> Tensor:
        """Return the change (B, J) from the last joint targets to others."""
        return self._limits.clamp(target) - last


class HandDeltas:
    """Changes of the hand's target pose: m, and a rotation vector in the base frame, rad.

    Args:
        hand: Controller of the hand, with limits of its axes.
    """

    def __init__(self, hand: CartesianController) -> None:
        self._hand = hand
        self._limits = Limits(hand.axes)

    def last(self, joints: Tensor) -> Tensor:
        """Return the pose (B, 6) at which joint targets (B, J) put the hand.

        The controller keeps joint targets within reach of the measured arm. The pose thus cannot
        run away from an arm that is held up.
        """
        return self._hand.forward(joints)

    def moved(self, last: Tensor, change: Tensor) -> Tensor:
        """Return the pose (B, 6) after a change (B, 6), within the limits of its axes."""
        import torch

        turned = nearest_rotvec(turn_rotvec(last[:, 3:], change[:, 3:]), last[:, 3:])
        moved = torch.cat([last[:, :3] + change[:, :3], turned], dim=-1)
        return self._limits.clamp(moved)

    def change(self, last: Tensor, target: Tensor) -> Tensor:
        """Return the change (B, 6) from the last pose to another one."""
        import torch

        turn = turn_between(last[:, 3:], target[:, 3:])
        return torch.cat([target[:, :3] - last[:, :3], turn], dim=-1)


def delta_spec(
    spec: ActSpec, acted_on: Sequence[tuple[str, CommandAxis]], delta: Sequence[bool]
) -> ActSpec:
    """Return the spec with some actions as changes, each limited by its largest velocity."""
    steps = [axis.max_velocity / spec.rate_hz for _, axis in acted_on]
    rows = list(zip(delta, steps, spec.low, spec.high, strict=True))
    words = ["delta" if each else "absolute" for each in delta]
    return spec.model_copy(
        update={
            "reference": words[0] if len({*words}) == 1 else ",".join(words),
            "low": tuple(-step if each else low for each, step, low, _ in rows),
            "high": tuple(step if each else high for each, step, _, high in rows),
        }
    )


class Limits:
    """Position limits (M,) of axes.

    Args:
        axes: (M,) the axes.
    """

    def __init__(self, axes: Sequence[CommandAxis]) -> None:
        import torch

        self._low = DeviceCopies(torch.tensor([axis.low for axis in axes]))
        self._high = DeviceCopies(torch.tensor([axis.high for axis in axes]))

    def clamp(self, target: Tensor) -> Tensor:
        """Return the target (B, M) within the limits."""
        return target.clamp(self._low.on(target.device), self._high.on(target.device))
