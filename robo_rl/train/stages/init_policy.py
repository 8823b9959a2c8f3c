"""Stage ``scratch``: a randomly initialised policy, for training without demonstrations.

Shapes: N rows, B envs, A act_dim.
"""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.api.env import VecEnv
from robo_rl.config.component import Component, component
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.core.seeding import derive, make_generator, seeded_initialization
from robo_rl.core.spec import ActSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.data.statistics import KeyStats, Stats
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import save_policy
from robo_rl.train.pipeline.stage import Context, Report, Stage


class InitPolicy(Stage):
    """Makes a policy with random weights and a normaliser from random actions.

    Under uniformly random actions, normalised observations have mean 0 and deviation 1. Actions are
    normalised to ±1 at the env's limits. Training may reach far other observations: let stage
    ``online`` update the statistics (``running_obs_stats``).

    Args:
        cfg: See ``Config``.
    """

    class Config(ConfigModel):
        """Policy, the experiment's by default; envs and steps of the random actions."""

        policy: Annotated[Component[DenoisingPolicy], component("policies")] | None = None
        """Policy to initialise; null is the experiment's."""
        num_envs: int = Field(default=16, ge=1)
        """Envs that take random actions, for the statistics of observations."""
        steps: int = Field(default=200, ge=2)
        """Env steps of the random actions."""

    makes: ClassVar = ("policy",)
    evaluates: ClassVar = False

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    @classmethod
    def output_policy(
        cls, cfg: Config, policy: Component[DenoisingPolicy] | None, own: Component[DenoisingPolicy]
    ) -> Component[DenoisingPolicy] | None:
        """See ``Stage``."""
        del policy
        return cfg.policy or own

    def run(self, context: Context) -> Report:
        """Take random actions, then build and save the policy.

        Raises:
            ConfigError: The env's actions have no limits, or the policy's are relative.
        """
        chosen = self.cfg.policy or context.experiment.policy
        _demand_absolute(chosen.cfg.relative_to)
        with closing(context.experiment.make_env(self.cfg.num_envs)) as env:
            rows = _random_rows(env, self.cfg.steps, context.seed)
            keys = {f"obs.{name}": _stats(x) for name, x in rows.items() if x.is_floating_point()}
            obs_spec, act_spec = env.obs_spec, env.act_spec
        stats = Stats({**keys, "act": _limits(act_spec)}, "")
        normalizer = Normalizer.from_stats(stats, dict.fromkeys(keys, "standard"))
        with seeded_initialization("init", context.seed):
            policy: DenoisingPolicy = chosen.build(obs_spec, act_spec, normalizer)
        path = save_policy(context.directory / "policy", policy)
        return Report(
            "scratch",
            numbers={"rows": len(next(iter(rows.values())))},
            artifacts={"policy": path.name},
        )


def _demand_absolute(relative_to: str) -> None:
    if relative_to:
        raise ConfigError(
            "relative actions need demonstrations, which show their range",
            where="policy.relative_to",
            expected="no relative_to for a policy from scratch",
            found=relative_to,
        )


def _random_rows(env: VecEnv, steps: int, seed: int) -> dict[str, Tensor]:
    """Return the observations under random actions: name → (N, …)."""
    limits = _limits(env.act_spec)
    low, high = limits.low.float(), limits.high.float()
    generator = make_generator("scratch-act", seed)
    obs, seen = env.reset(derive("scratch", seed)), list[dict[str, Tensor]]()
    for _ in range(steps):
        share = torch.rand(env.num_envs, *low.shape, generator=generator)
        step = env.step(low + (high - low) * share)
        seen.append({name: x[step.valid].clone() for name, x in obs.items()})
        obs = step.obs
    return {name: torch.cat([each[name] for each in seen]) for name in obs}


def _stats(rows: Tensor) -> KeyStats:
    rows = rows.double()
    return KeyStats(rows.amin(0), rows.amax(0), rows.mean(0), rows.std(0, correction=0))


def _limits(act_spec: ActSpec) -> KeyStats:
    """Return the action's limits in the form of statistics.

    Raises:
        ConfigError: The actions have no limits.
    """
    if not act_spec.low or not act_spec.high:
        raise ConfigError(
            "a policy from scratch needs to know how far actions go",
            expected="low and high of every action",
            found=act_spec,
            hint="give the env's act_spec limits, or clone a policy from demonstrations",
        )
    low, high = (torch.tensor(x, dtype=torch.float64) for x in (act_spec.low, act_spec.high))
    return KeyStats(low, high, (low + high) / 2, (high - low) / 2, act_spec.names)
