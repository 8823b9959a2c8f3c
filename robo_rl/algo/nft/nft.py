"""DiffusionNFT: reinforcement learning on the forward process, for any sampler.

Shapes: N decisions. Actions that turned out well and actions that did not are noised anew and
drawn apart (see ``forward_process``): no chain is scored, so the policy may explore by the ODE from
random noise alone, or by whatever sampler it has. Source: Zheng et al. 2025, arXiv 2509.16117;
π-StepNFT (2603.02083) for robots.
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
from robo_rl.policy.matching import MatchingPolicy


class Nft(OnPolicy):
    """A learner beside the policy that acts, which follows it with a lag.

    The policy that is handed in acts, and is what is kept and judged: its network is v_old, the
    one that the data come from. The learner begins an update where it ended the last one.

    Args:
        cfg: See Config.
        policy: Changed in place, a flow or diffusion policy.
        num_envs: B, for the running return scale.
        generator: Draws minibatches, noise and times.

    Raises:
        ConfigError: The policy is not cloned by undoing noise.
    """

    class Config(NftActorConfig, AdvantageConfig):
        """Hyper-parameters; see ``NftActorConfig`` and ``AdvantageConfig``."""

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
        """Refuse a policy that is not cloned by undoing noise."""
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
