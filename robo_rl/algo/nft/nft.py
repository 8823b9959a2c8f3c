"""DiffusionNFT: reinforcement learning on the forward process, for any sampler.

Shapes: N decisions. The algorithm adds new noise to good and bad actions and contrasts them (see
``forward_process``). It needs no likelihood of the chain, so the policy may explore with any
sampler, such as the ODE from random noise. Source: Zheng et al. 2025, arXiv 2509.16117; π-StepNFT
(2603.02083) for robots.
"""

from __future__ import annotations

import torch
from torch import Tensor

from robo_rl.algo.advantages.factory import AdvantageConfig
from robo_rl.algo.nft.acting_policy_ema import ActingPolicyEma, ema_update_
from robo_rl.algo.nft.actor_update import NftActor, NftActorConfig
from robo_rl.algo.on_policy import OnPolicy
from robo_rl.core.errors import ConfigError
from robo_rl.data.rollout import Rollout
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.families.matching import MatchingPolicy


class Nft(OnPolicy):
    """Trains a learner policy; the acting policy is its exponential moving average.

    The given policy acts, and is evaluated and saved. Its network is v_old, which collects the
    data. The learner keeps its weights between updates.

    Args:
        cfg: See Config.
        policy: Changed in place, a flow or diffusion policy.
        num_envs: B, for the running return scale.
        generator: Draws minibatches, noise and times.

    Raises:
        ConfigError: The policy is not a flow or diffusion policy.
    """

    class Config(NftActorConfig, AdvantageConfig):
        """Hyper-parameters; see ``NftActorConfig`` and ``AdvantageConfig``.

        ``cuda_graphs`` is for the critic alone, because the actor's loss draws random numbers.
        """

        acting_ema: ActingPolicyEma = ActingPolicyEma()
        """Decay of the acting policy's weights."""

    actor: NftActor

    def __init__(
        self, cfg: Config, policy: DenoisingPolicy, num_envs: int, generator: torch.Generator
    ) -> None:
        actor = NftActor(cfg, _matching(policy), generator)
        super().__init__(cfg, policy, num_envs, generator, actor)
        self.cfg = cfg

    @classmethod
    def check_policy(cls, cfg: Config, policy: DenoisingPolicy) -> None:
        """Refuse a policy that is not a flow or diffusion policy."""
        del cfg
        _matching(policy)

    def _fit_actor(self, rollout: Rollout, adv: Tensor) -> dict[str, float]:
        metrics = super()._fit_actor(rollout, adv)
        decay = self.cfg.acting_ema.decay(self.updates)
        ema_update_(self.policy.net, self.actor.learner.net, decay)
        return metrics


def _matching(policy: DenoisingPolicy) -> MatchingPolicy:
    if not isinstance(policy, MatchingPolicy):
        raise ConfigError(
            "algorithm 'nft' needs a policy that is cloned by undoing noise",
            expected="flow or diffusion",
            found=policy.family,
            hint="its likelihood is exact: use algorithm 'ppo'",
        )
    return policy
