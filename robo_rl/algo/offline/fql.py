"""Flow Q-learning: a one-step policy that maximises Q near a multi-step policy.

No gradient runs through the given policy, which may have any family and number of steps. The
one-step student maps the same noise to the same chunk, with a bonus for Q (Park, Li & Levine 2025,
FQL, arXiv 2502.02538, algorithm 1). In terms of ``OneStepActor``: the target is π(o, z), w is α,
and the bootstrap is the mean of Q'(o', μ(o', z)).

Shapes: B rows of a batch, H horizon, A act_dim.
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from robo_rl.algo.offline.base import OfflineInputs, check_eval_is_deterministic
from robo_rl.algo.offline.one_step_actor import OneStepActor
from robo_rl.data.transitions import Transitions
from robo_rl.policy.base import DenoisingPolicy


class Fql(OneStepActor):
    """One-step actor with the policy's chunk of the same noise as its target.

    Args:
        cfg: See Config.
        inputs: See ``OfflineInputs``.
    """

    class Config(OneStepActor.Config):
        """``alpha`` α weighs the distance to the policy's chunk."""

        alpha: float = Field(default=300.0, gt=0.0)
        """Weight of the distance to the given policy's chunk."""

    def __init__(self, cfg: Config, inputs: OfflineInputs) -> None:
        super().__init__(cfg, cfg.alpha, inputs)

    @classmethod
    def check_policy(cls, cfg: Config, policy: DenoisingPolicy) -> None:
        """Refuse a policy with stochastic evaluation."""
        check_eval_is_deterministic(policy.cfg, "fql distils a map from noise to chunks")

    def bc_target(self, batch: Transitions, noise: Tensor) -> Tensor:
        """The given policy's chunks (B, H, A) for the same noise."""
        return self.inputs.policy.decode_normalized(batch.obs, noise)

    def next_q(self, obs: dict[str, Tensor]) -> Tensor:
        """Mean of Q' (B,) at the student's chunks."""
        return self.critics.target.module(obs, self.act(obs, self.noise(obs))).mean(dim=0)
