"""A stage's video: the policy on a few start states that are the same for every stage."""

from __future__ import annotations

from robo_rl.env.sim import SimEnv
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.film import film
from robo_rl.train.stage import Context

NUM_ENVS = 4


def record_video(context: Context, policy: DenoisingPolicy, name: str) -> dict[str, str]:
    """Film the policy; returns {"video": name}, or nothing where nothing can be drawn."""
    env = context.experiment.make_env(NUM_ENVS)
    try:
        if not isinstance(env, SimEnv):
            return {}
        made = film(
            policy.act,
            env,
            context.directory / name,
            obs_horizon=policy.obs_horizon,
            exec_horizon=policy.exec_horizon,
            seed=context.seed,
        )
        return {} if made is None else {"video": name}
    finally:
        env.close()
