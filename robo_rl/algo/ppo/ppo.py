"""PPO on denoising chains, for every policy family.

Sources: Schulman et al. 2017 (1707.06347); DPPO (2409.00588) for the denoising discount; pi_RL
(2510.25889). The loss is in ``objective``, advantages in ``algo.advantages``, and epochs, step size
and weight averages in ``actor_update``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from pydantic import Field, model_validator

from robo_rl.algo.advantages.factory import AdvantageConfig
from robo_rl.algo.on_policy import OnPolicy
from robo_rl.algo.ppo import objective
from robo_rl.algo.ppo.actor_update import ActorConfig, PpoActor, check_capturable
from robo_rl.algo.ppo.ratio_units import RatioMode
from robo_rl.algo.ppo.rollout_reuse import RolloutReuse, check_reusable, effective_share
from robo_rl.core.errors import ConfigError
from robo_rl.data.rollout import Rollout
from robo_rl.policy.base import DenoisingPolicy


class Ppo(OnPolicy):
    """Proximal policy optimisation with likelihood ratios of chains.

    Args:
        cfg: See Config.
        policy: Trained in place.
        num_envs: B, for the running return scale.
        generator: Draws the minibatches.

    Raises:
        ConfigError: The policy does not support the settings.
    """

    class Config(ActorConfig, AdvantageConfig):
        """Hyper-parameters; see ``ObjectiveConfig``, ``ActorConfig`` and ``AdvantageConfig``."""

        reused_rollouts: int = Field(default=0, ge=0)
        """Earlier rollouts that an update learns from too, see ``RolloutReuse``; 0 is off."""

        @model_validator(mode="after")
        def _what_reuse_needs(self) -> Self:
            if not self.reused_rollouts:
                return self
            refused = {
                f"ratio '{self.ratio}'": self.ratio not in (RatioMode.JOINT, RatioMode.PER_STEP),
                "proximal_ema": self.proximal_ema,
                "regularization.bc_rollout": self.regularization.bc_rollout,
                f"advantage '{self.advantage}'": self.advantage != "gae",
                "group_size": self.group_size > 1,
            }
            for name, used in refused.items():
                if used:
                    raise ValueError(f"reused_rollouts: does not go with {name}")
            return self

    actor: PpoActor
    state_parts: ClassVar[tuple[str, ...]] = ("reuse",)

    def __init__(
        self, cfg: Config, policy: DenoisingPolicy, num_envs: int, generator: torch.Generator
    ) -> None:
        super().__init__(cfg, policy, num_envs, generator, PpoActor(cfg, policy, generator))
        self.cfg = cfg
        self.single_step = cfg.ratio is RatioMode.SINGLE_STEP
        self.reuse = RolloutReuse(cfg.reused_rollouts, policy) if cfg.reused_rollouts else None

    @classmethod
    def check_policy(cls, cfg: Config, policy: DenoisingPolicy) -> None:
        """Refuse a policy that does not support the settings."""
        objective.check_policy_supports(cfg, policy)
        check_capturable(cfg, policy)
        if cfg.reused_rollouts:
            check_reusable(policy)

    @classmethod
    def check_processes(cls, cfg: Config, count: int) -> None:
        """Refuse to reuse rollouts in several processes; a checkpoint holds those of one."""
        super().check_processes(cfg, count)
        if cfg.reused_rollouts and count > 1:
            raise ConfigError(
                "reused_rollouts: earlier rollouts are of one process",
                where="algo.reused_rollouts",
                expected="0, or one process",
                found=f"{count} processes",
            )

    def update(self, rollout: Rollout) -> dict[str, float]:
        """See ``OnPolicy``; learns from earlier rollouts too if they are reused."""
        if self.reuse is None:
            return super().update(rollout)
        joined = self.reuse.join(rollout, self.actor.policy)
        ratios = joined.policy_log_ratio
        share = 1.0
        if ratios is not None:
            limit = self.cfg.log_ratio_max
            share = effective_share(joined.rows(ratios).clamp(-limit, limit))
        return super().update(joined) | {"effective_share": share}

    def rollback(self, state: Mapping[str, Any]) -> None:
        """See ``OnPolicy``; forgets earlier rollouts."""
        super().rollback(state)
        if self.reuse is not None:
            self.reuse.clear()
