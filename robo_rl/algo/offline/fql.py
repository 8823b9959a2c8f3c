"""Flow Q-learning: a policy of one step that stays near the policy and does what critics prefer.

The policy before, of whatever family and as many steps, is not differentiated through: its student
maps the same noise to the same chunk, but for where another is worth more (Park, Li & Levine 2025,
FQL, arXiv 2502.02538, algorithm 1; ``OneStepActor``): near is π(o, z), w is α, and what follows is
the mean of the critics' Q'(o', μ(o', z)). What comes of it is a policy of one step.

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
    """Near the policy's own chunk of the same noise.

    Args:
        cfg: See Config.
        inputs: See ``OfflineInputs``.
    """

    class Config(OneStepActor.Config):
        """``alpha`` α: how near."""

        alpha: float = Field(default=300.0, gt=0.0)
        """Weight of the distance from the cloned policy."""

    def __init__(self, cfg: Config, inputs: OfflineInputs) -> None:
        super().__init__(cfg, cfg.alpha, inputs)

    @classmethod
    def check_policy(cls, cfg: Config, policy: DenoisingPolicy) -> None:
        """See ``Learner``."""
        check_eval_is_deterministic(policy.cfg)

    def bc_target(self, batch: Transitions, noise: Tensor) -> Tensor:
        """See ``OneStepActor``."""
        return self.inputs.policy.decode_normalized(batch.obs, noise)

    def next_q(self, obs: dict[str, Tensor]) -> Tensor:
        """See ``OneStepActor``."""
        return self.critics.target.module(obs, self.act(obs, self.noise(obs))).mean(dim=0)
