"""PPO on denoising chains, for every policy family.

Sources: Schulman et al. 2017 (1707.06347); DPPO (2409.00588) for the denoising discount; pi_RL
(2510.25889). The loss is in ``objective``, advantages in ``algo.advantages``, and epochs, step size
and weight averages in ``actor_update``.
"""

from __future__ import annotations

import torch

from robo_rl.algo.advantages.factory import AdvantageConfig
from robo_rl.algo.on_policy import OnPolicy
from robo_rl.algo.ppo import objective
from robo_rl.algo.ppo.actor_update import ActorConfig, PpoActor
from robo_rl.algo.ppo.ratio_units import RatioMode
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

    actor: PpoActor

    def __init__(
        self, cfg: Config, policy: DenoisingPolicy, num_envs: int, generator: torch.Generator
    ) -> None:
        super().__init__(cfg, policy, num_envs, generator, PpoActor(cfg, policy, generator))
        self.cfg = cfg
        self.single_step = cfg.ratio is RatioMode.SINGLE_STEP

    @classmethod
    def check_policy(cls, cfg: Config, policy: DenoisingPolicy) -> None:
        """Refuse a policy that does not support the settings."""
        objective.check_policy_supports(cfg, policy)
