"""Records a stage's video: the policy on start states that are the same for every stage."""

from __future__ import annotations

from contextlib import closing
from copy import deepcopy

from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.evaluation.joint_trajectory_log import render_policy_video
from robo_rl.train.pipeline.stage import Context

NUM_ENVS = 4


def record_video(context: Context, policy: DenoisingPolicy, name: str) -> dict[str, str]:
    """Film the policy on the processor; returns {"video": name}, or nothing without a renderer."""
    kind = context.experiment.env.cls
    if not (isinstance(kind, type) and issubclass(kind, SimEnv)):
        return {}
    with closing(context.experiment.make_env(NUM_ENVS)) as env:
        made = render_policy_video(
            deepcopy(policy).cpu().act,
            env,
            context.directory / name,
            obs_horizon=policy.obs_horizon,
            exec_horizon=policy.exec_horizon,
            seed=context.seed,
        )
    return {} if made is None else {"video": name}
