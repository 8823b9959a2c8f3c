"""A program that plays Meta-World's scripted policies and keeps everything that came of it.

Called as ``FILE TASK…`` it plays the original classes, as ``--quick FILE TASK…`` those that
``metaworld_fast`` has changed. Of what a task's info tells, ``grasp_success`` is left out unless it
decides on success. It writes task → list of arrays (float64), one a reset and a step.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

# A seed or None, the noise of the actions: without any, shaky, again from the first seed, wild.
EPISODES = ((5, 0.0), (None, 0.3), (5, 0.1), (None, 2.0))
STEPS = 90


def course(task, quick, steps=STEPS):
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE as CLASSES
    from metaworld.policies import ENV_POLICY_MAP

    cls: Any = CLASSES[f"{task}-goal-observable"]
    if quick:
        from robo_rl.env.gym_envs.metaworld_fast import use_fast_methods

        use_fast_methods(cls)
    env, policy = cls(seed=0), ENV_POLICY_MAP[task]()
    env._freeze_rand_vec, env.seeded_rand_vec = False, True
    rows = []
    for episode, (seed, noise) in enumerate(EPISODES):
        rng = np.random.default_rng(episode)
        if seed is not None:
            env.seed(seed)
        obs = env.reset()[0]
        rows.append(np.concatenate([obs, physics(env)]))
        for _ in range(steps):
            act = np.clip(policy.get_action(obs), -1, 1) + noise * rng.standard_normal(4)
            obs, rew, _, _, info = env.step(np.clip(act, -1, 1).astype(np.float32))
            told = info.keys() - (set() if task == "stick-push-v3" else {"grasp_success"})
            facts = [rew, *(float(info[name]) for name in sorted(told))]
            rows.append(np.concatenate([obs, facts, physics(env)]))
    return rows


def physics(env):
    """Where everything is, and where it was put."""
    model, data = env.model, env.data
    return np.concatenate([data.qpos, data.qvel, model.body_pos.ravel(), model.site_pos.ravel()])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    quick = sys.argv[1] == "--quick"
    file, *tasks = sys.argv[1 + quick :]
    rows = {f"{task}/{i}": row for task in tasks for i, row in enumerate(course(task, quick))}
    np.savez(file, **rows)
