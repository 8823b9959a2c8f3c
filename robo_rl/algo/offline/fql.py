"""Flow Q-learning: a policy of one step that stays near the policy and does what critics prefer.

The policy before, of whatever family and as many steps, is not differentiated through: its student
maps the same noise to the same chunk, but for where another is worth more (Park, Li & Levine 2025,
FQL, arXiv 2502.02538, algorithm 1; ``OneStepActor``): near is π(o, z), w is α, and what follows is
the mean of the critics' Q'(o', μ(o', z)). What comes of it is a policy of one step.

Shapes: B rows of a batch, H horizon, A act_dim.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.offline.action_search import check_eval_is_deterministic
from robo_rl.algo.offline.one_step_actor import OneStepActor
from robo_rl.algo.offline_critics.base import OfflineCritics
from robo_rl.data.replay import Replay
from robo_rl.data.transitions import Transitions
from robo_rl.policy.base import DenoisingPolicy


class Fql(OneStepActor):
    """Near the policy's own chunk of the same noise; an ``OfflineAlgorithm``.

    Args:
        cfg: See Config.
        policy: What the student stays near; stays as it is.
        critics: Their Q' is where the student's critics begin.
        replay: The data.
        steps: Length of the schedule.
        generator: Draws batches and noise.
    """

    class Config(OneStepActor.Config):
        """``alpha`` α: how near."""

        alpha: float = Field(default=300.0, gt=0.0)
        """Weight of the distance from the cloned policy."""

    def __init__(
        self,
        cfg: Config,
        policy: DenoisingPolicy,
        critics: OfflineCritics,
        replay: Replay,
        *,
        steps: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__(cfg, cfg.alpha, policy, critics, replay, steps=steps, generator=generator)

    @staticmethod
    def check_settings(policy: DenoisingPolicy.Config) -> None:
        """See ``Choosy``."""
        check_eval_is_deterministic(policy)

    def bc_target(self, batch: Transitions, noise: Tensor) -> Tensor:
        """See ``OneStepActor``."""
        return self.teacher.decode_normalized(batch.obs, noise)

    def next_q(self, obs: dict[str, Tensor]) -> Tensor:
        """See ``OneStepActor``."""
        return self.critics.target.module(obs, self.act(obs, self.noise(obs))).mean(dim=0)
