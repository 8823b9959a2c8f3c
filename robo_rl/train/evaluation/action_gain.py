"""Gain of actions on displacements of the arm, measured in the env.

The gain is the mean of (Δa · d) / |d|². d displaces the arm's joints in a state that is otherwise
the same, and Δa is the change of the action. At 0 the action leads the arm back to its path as fast
as its controller can. At 1 the action follows the displaced arm, and nothing corrects it. Below 0
it corrects more than the controller alone. Actions are joint targets, absolute or relative to the
last command.

Shapes: B envs, J displaced joints, A act_dim. Displacements are normal with a standard deviation
of ``DISPLACEMENT_RAD`` for each joint.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from copy import deepcopy
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from robo_rl.api.env import SimView, VecEnv
from robo_rl.api.robot import Robot
from robo_rl.api.task import Demonstration
from robo_rl.core.seeding import derive, make_generator
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.stats.reported import reported_mean

DISPLACEMENT_RAD = 0.02
"""About 1 cm at the end effector of an arm's size."""

_PAIRS = 64
"""Pairs of envs of a label's gain."""
_POLICY_ENVS = 32
"""Envs of a policy's gain, each with one value for each decision."""
_SHARE = 0.5
"""Share of the longest episode within which an arm is displaced."""


class JointColumns(NamedTuple):
    """The arm joints that actions command: their columns in qpos and in the action, each (J,)."""

    qpos: list[int]
    act: list[int]


def is_displaceable(env: VecEnv) -> bool:
    """Return whether the arm of an env can be displaced, so that a gain is defined."""
    return _columns(env) is not None


def label_gain(make_env: Callable[[int], VecEnv], seed: int) -> dict[str, Any] | None:
    """Return the gain of the label of an env's scripted expert without noise, or None.

    Two envs have the same start, and the expert sees the arm of one of them displaced for one step.

    Args:
        make_env: Number of envs → env.
        seed: Seed of starts and displacements.

    Returns:
        The mean in the format of reports. None for an env that is no ``SimEnv`` on the CPU, and for
        a task without a robot, without an expert, or without joint targets as actions.
    """
    with closing(make_env(2 * _PAIRS)) as env:
        columns = _columns(env)
        if columns is None or not hasattr(cast(SimEnv, env).task, "expert"):
            return None
        return _number(_label_gains(cast(SimEnv, env), columns, seed))


def policy_gain(
    make_env: Callable[[int], VecEnv], policy: DenoisingPolicy, seed: int
) -> dict[str, Any] | None:
    """Return the gain of the first action of a policy's chunks, or None.

    The policy acts in the env. At each decision, its newest observation is that of the displaced
    arm, in all its items; earlier ones are as they were.

    Args:
        make_env: Number of envs → env.
        policy: Policy under its evaluation sampler.
        seed: Seed of starts, displacements and the policy's noise.

    Returns:
        As ``label_gain``; also None for observations with images.
    """
    with closing(make_env(_POLICY_ENVS)) as env:
        columns = _columns(env)
        if columns is None or env.obs_spec.image_names:
            return None
        return _number(_policy_gains(cast(SimEnv, env), columns, policy, seed))


def _label_gains(env: SimEnv, columns: JointColumns, seed: int) -> Tensor:
    """Return the gain of each pair of envs whose episode had not ended when it was displaced."""
    generator = make_generator("label gain", seed)
    ids = torch.arange(env.num_envs)
    limit = max(2, int(_SHARE * env.max_episode_steps))
    when = torch.randint(1, limit, (env.num_envs // 2,), generator=generator)
    expert = cast(Any, env.task).expert(env.num_envs, make_generator("expert", seed), 0.0)
    env.reset_groups(2, derive("label gain", seed))
    expert.reset(ids)
    live, gains = torch.ones(len(when), dtype=torch.bool), list[Tensor]()
    for steps in range(limit):
        now = (when == steps) & live
        shift = _drawn(len(when), columns, generator) * now.unsqueeze(1)
        view = _displaced(env, columns, torch.stack([0 * shift, shift], 1).flatten(0, 1))
        shown = Demonstration.of(expert.act(view))
        change = shown.label[1::2] - shown.label[0::2]
        gains.append(_gain(change, shift, columns)[now])
        step = env.step(shown.act)
        over = step.terminated | step.truncated
        live &= ~over.view(-1, 2).any(dim=1)
        expert.reset(ids[over])
    return torch.cat(gains)


@torch.no_grad()
def _policy_gains(env: SimEnv, columns: JointColumns, policy: DenoisingPolicy, seed: int) -> Tensor:
    """Return the gain at each decision of the first part of every env's episode."""
    policy, generator = deepcopy(policy).cpu(), make_generator("policy gain", seed)
    sizes = {"obs_horizon": policy.obs_horizon, "exec_horizon": policy.exec_horizon}
    chunks, gains = ChunkEnv(env, **sizes, gamma=1.0), list[Tensor]()
    obs = chunks.reset(derive("policy gain", seed))
    for decision in range(max(1, int(_SHARE * env.max_episode_steps) // policy.exec_horizon)):
        shift = _drawn(env.num_envs, columns, generator)
        before, after = (
            policy.act(_seen(env, obs, columns, each), make_generator("noise", seed, decision))
            for each in (0 * shift, shift)
        )
        gains.append(_gain(after[:, 0] - before[:, 0], shift, columns))
        obs = chunks.step(policy.act(obs, generator)).obs
    return torch.cat(gains)


def _columns(env: VecEnv) -> JointColumns | None:
    """Return the joints to displace; None where that is impossible."""
    if not isinstance(env, SimEnv) or not env.restorable or env.device.type != "cpu":
        return None
    robot: Robot | None = getattr(env.task, "robot", None)
    if robot is None:
        return None
    gripper, names = robot.gripper and robot.gripper.actuator, env.act_spec.names
    commanded = zip(robot.actuated_joints, robot.actuator_names, strict=True)
    arm = [(joint.name, said) for joint, said in commanded if said in names and said != gripper]
    places = [(robot.joint_names.index(joint), names.index(said)) for joint, said in arm]
    return JointColumns(*map(list, zip(*places, strict=True))) if places else None


def _drawn(number: int, columns: JointColumns, generator: torch.Generator) -> Tensor:
    """Draw displacements (number, J), in rad."""
    return DISPLACEMENT_RAD * torch.randn(number, len(columns.qpos), generator=generator)


def _displaced(env: SimEnv, columns: JointColumns, shift: Tensor) -> SimView:
    """Return the view of the worlds with their joints displaced by shift (B, J)."""
    qpos = env.view.qpos.clone()
    qpos[:, columns.qpos] += shift
    return env.view_at(qpos)


def _seen(
    env: SimEnv, obs: dict[str, Tensor], columns: JointColumns, shift: Tensor
) -> dict[str, Tensor]:
    """Return obs, name → (B, To, …), with the newest one of displaced arms; words stay."""
    newest = env.task.observe(_displaced(env, columns, shift))
    displaced = {
        name: torch.cat([obs[name][:, :-1], item.to(obs[name]).unsqueeze(1)], dim=1)
        for name, item in newest.items()
    }
    return {**obs, **displaced}


def _gain(change: Tensor, shift: Tensor, columns: JointColumns) -> Tensor:
    """Return the gain (n,) of changes (n, A) of the action on displacements (n, J)."""
    return (change[:, columns.act] * shift).sum(dim=1) / shift.square().sum(dim=1)


def _number(gains: Tensor) -> dict[str, Any] | None:
    """Return the mean of gains (n,) with its interval; None without any."""
    return reported_mean(gains.numpy(), "rad/rad") if len(gains) else None
