"""Matches the commands of a bundle's policy with the robot.

Shapes: n actions, in the order of the contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from robo_rl.api.control_axes import CommandAxis
from robo_rl.api.robot import Robot
from robo_rl.bundle.contract import Mismatch
from robo_rl.bundle.manifest import Contract
from robo_rl.core.errors import BundleError
from robo_rl.core.spec import ActSpec
from robo_rl.core.suggestions import did_you_mean
from robo_rl_sim2real.control.commands.braking import Limits
from robo_rl_sim2real.control.commands.deltas import DeltaActions, delta_actions
from robo_rl_sim2real.messages.ee_pose import EePoseAxes


class CommandSpec(NamedTuple):
    """The commanded joints and axes, in the order of the policy's actions.

    Args:
        names: Names of joints, as in joint states, and of end-effector axes.
        limits: Limits of the commands.
        home: (n,) home pose.
        deltas: Conversion of actions that are changes of the last target; None without any.
        tracks_command: (n,) bool, all but the gripper, which stops at the object that it holds.
        units: (n,) ``"m"`` or ``"rad"``.
    """

    names: tuple[str, ...]
    limits: Limits
    home: np.ndarray
    deltas: DeltaActions | None
    tracks_command: np.ndarray
    units: tuple[str, ...]


def command_spec(contract: Contract, robot: Robot) -> CommandSpec:
    """Match the contract's actions with the robot's joints and axes, by name.

    Raises:
        BundleError: The robot, unit, limit or rate differs from training, or an action has no joint
            or axis of its name. The error lists every mismatch.
    """
    joints = _joints(contract.act, robot)
    found = mismatches(contract, robot, joints)
    if found:
        listing = "".join(f"\n  {mismatch}" for mismatch in found)
        raise BundleError(
            f"the bundle does not fit robot '{robot.name}' in {len(found)} places:{listing}",
            hint=f"\nit was trained for {contract.robot}, {contract.task}",
        )
    gripper = robot.gripper.actuator if robot.gripper else None
    return CommandSpec(
        tuple(joint.name for joint in joints),
        _limits(joints, 1.0 / contract.act.rate_hz),
        np.array([joint.home for joint in joints]),
        delta_actions(contract.act, EePoseAxes.of(robot).names[3:]),
        np.array([name != gripper for name in contract.act.names]),
        tuple(joint.unit for joint in joints),
    )


def mismatches(contract: Contract, robot: Robot, joints: tuple[CommandAxis, ...]) -> list[Mismatch]:
    """Return the differences between the policy's contract and the robot.

    Args:
        contract: Contract of the policy.
        robot: Robot to run on.
        joints: Joints of the contract's actions, in their order.
    """
    act = contract.act
    pairs: dict[str, tuple[object, object]] = {
        "robot": (contract.robot, robot.name),
        "act unit": (act.unit, _unit(act.unit, joints)),
        "act rate_hz": (act.rate_hz, robot.rates.control_hz),
    }
    pairs["act low"] = act.low, _expected(act, act.low, [joint.low for joint in joints])
    pairs["act high"] = act.high, _expected(act, act.high, [joint.high for joint in joints])
    return [Mismatch(field, *pair) for field, pair in pairs.items() if not _same(*pair)]


def _expected(
    act: ActSpec, bounds: tuple[float, ...], joints: Sequence[float]
) -> tuple[float, ...]:
    """Return the limits of the joints; changes have limits of their own."""
    if not all(act.is_delta) and len(bounds) != len(joints):
        return tuple(joints)
    pairs = zip(act.is_delta, bounds, joints, strict=True) if bounds else ()
    return tuple(own if delta else joint for delta, own, joint in pairs)


def _joints(act: ActSpec, robot: Robot) -> tuple[CommandAxis, ...]:
    by_name = robot.command_axes
    if len(act.names) != act.shape[-1]:
        raise BundleError("the bundle's actions have no names", hint="export the policy again")
    for name in act.names:
        if name not in by_name:
            raise BundleError(
                f"robot '{robot.name}' has no actuator or axis '{name}'",
                hint=did_you_mean(name, by_name),
            )
    return tuple(by_name[name] for name in act.names)


def _unit(like: str, joints: tuple[CommandAxis, ...]) -> str:
    """Return the joints' units, as one word if they agree and the policy has one unit."""
    units = [joint.unit for joint in joints]
    return units[0] if "," not in like and len(set(units)) == 1 else ",".join(units)


def _same(one: object, other: object) -> bool:
    if isinstance(one, (float, tuple)) and isinstance(other, (float, tuple)):
        a, b = np.atleast_1d(one), np.atleast_1d(other)
        return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-6, atol=1e-9))
    return one == other


def _limits(joints: tuple[CommandAxis, ...], dt_s: float) -> Limits:
    def column(field: str) -> np.ndarray:
        return np.array([getattr(joint, field) for joint in joints], np.float64)

    return Limits(
        low=column("low"),
        high=column("high"),
        velocity=column("max_velocity"),
        acceleration=column("max_acceleration"),
        jerk=column("max_jerk"),
        dt_s=dt_s,
    )
