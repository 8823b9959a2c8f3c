"""A process reward: a learnt success classifier says after each decision how far a task is done.

The potential Φ is the classifier's calibrated probability of success. A decision from s to s′ of n
env steps adds γⁿ·Φ(s′) − Φ(s) to the reward, and −Φ(s) where the task ends. The additions of an
episode that ends sum to −Φ of its start, so the best policy stays the best (Ng et al. 1999, "Policy
invariance under reward transformations", theorem 1). Where an episode is cut, the value of the cut
state holds its −Φ, which takes a critic: estimates without one are refused. VLA-RL (Lu et al.
2025, arXiv 2505.18719, section 3.3) adds the output of a process reward model to a sparse reward
for the same purpose.

Shapes: B envs, To frames of history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.api.env import REW_PART, VecEnv
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.env.chunk_env import ChunkEnv, ChunkStep, Obs
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.classifiers import load_success
from robo_rl.train.pipeline.stage import Context

Potential = Callable[[Obs], Tensor]
"""Observations name → (B, To, …) → potentials (B,)."""


class ProcessReward(ConfigModel):
    """Weight of the process reward; the classifier is that of stage ``success``."""

    weight: float = Field(default=0.0, ge=0.0)
    """Reward of the way from certain failure to certain success; 0 is off."""


class ProcessRewardEnv(ChunkEnv):
    """An env whose rewards to learn from have the process reward added.

    ``rew_sum``, the return that is reported, stays that of the task; ``rew/process`` reports what
    is added.

    Args:
        env: The env.
        potential: Φ.
        settings: Of ``ChunkEnv``.
    """

    def __init__(self, env: VecEnv, potential: Potential, **settings: Any) -> None:
        super().__init__(env, **settings)
        self._potential = potential

    @torch.no_grad()
    def step(self, act: Tensor) -> ChunkStep:
        """See ``ChunkEnv``."""
        before = self._potential(self._history)
        found = super().step(act)
        going = found.discount * ~found.terminated
        added = going * self._potential(found.next_obs) - before
        metrics = {**found.metrics, f"{REW_PART}process": added}
        return found._replace(rew=found.rew + added, metrics=metrics)


def success_potential(cfg: ProcessReward, context: Context, policy: DenoisingPolicy) -> Potential:
    """Return the weighted probability of the newest success classifier.

    Raises:
        ConfigError: The classifier reads a longer history than the policy.
        SpecError: It reads items that the env lacks.
        CheckpointError: It is missing or damaged.
    """
    model = load_success(context.artifact("success")).to(policy.device)
    frames, names = model.cfg.obs_horizon, model.obs_spec.vector_names
    policy.env_spec.select(names, "the classifier of stage 'success'")
    if frames > policy.obs_horizon:
        raise ConfigError(
            "the success classifier reads a longer history than the policy",
            where="success.model.obs_horizon",
            expected=f"at most {policy.obs_horizon}, or a larger policy.obs_horizon",
            found=frames,
        )

    def potential(obs: Obs) -> Tensor:
        latest = {name: obs[name][:, -frames:] for name in names}
        return cfg.weight * model.log_odds(latest).sigmoid()

    return potential
