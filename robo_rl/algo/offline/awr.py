"""Advantage-weighted cloning: improves a policy with chunks from the data only.

Shapes: B rows of a batch, H actions of a chunk, A act_dim. The cloning loss of each row is
multiplied by exp(advantage / temperature), clipped to ``max_weight``. This projects the best policy
near the data onto the policy family (Peng et al. 2019, arXiv 1910.00177, eq. 10). With IQL's
advantages it is eq. 7 of Kostrikov et al. 2021 (arXiv 2110.06169).

Advantages are in units of their spread over the data, so a temperature is comparable across tasks.
Weights are divided by their batch mean, so a learning rate is comparable too.

Rows that a human commanded can have a minimum advantage, independent of the critics. RECAP
(Physical Intelligence 2025, arXiv 2511.14759) also treats corrections as good actions.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.offline.base import OfflineInputs, SupervisedAlgorithm
from robo_rl.algo.offline_critics.base import OfflineCritics
from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.config.models import ConfigModel
from robo_rl.core.seeding import make_generator
from robo_rl.data.replay import Replay
from robo_rl.data.transitions import Transitions

_SEEN = 4096
"""Number of decisions in the estimate of the advantages' spread."""


class Awr(SupervisedAlgorithm):
    """Clones a policy with rows weighted by their advantage.

    Args:
        cfg: See Config.
        inputs: See ``OfflineInputs``.
    """

    class Config(ConfigModel):
        """Weights and cloning; ``temperature`` is in units of the advantages' spread.

        ``intervention_min_advantage`` is the minimum advantage of rows that a human commanded, in
        the same units. The value 0 disables the minimum.
        """

        temperature: float = Field(default=0.5, gt=0.0)
        """Temperature of the weights, in units of the spread of advantages."""
        max_weight: float = Field(default=20.0, gt=1.0)
        """Largest weight of a row."""
        intervention_min_advantage: float = Field(default=0.0, ge=0.0)
        """Minimum advantage of a row that a human commanded, in the same units; 0 is off."""
        minibatch: int = Field(default=256, ge=1)
        """Rows of a minibatch."""
        optim: SupervisedTrainer.Config = SupervisedTrainer.Config(lr=3e-4)
        """Optimiser, learning-rate schedule and weight averaging."""

    def __init__(self, cfg: Config, inputs: OfflineInputs) -> None:
        super().__init__(cfg, cfg.optim, inputs)
        self.cfg = cfg
        self.scale = cfg.temperature * _spread(inputs.critics, inputs.replay)

    def step(self) -> dict[str, float]:
        """Take one gradient step; returns the loss."""
        batch = self.replay.sample(self.cfg.minibatch, self.generator)
        advantage = self.advantage(batch) / self.scale
        if self.cfg.intervention_min_advantage:
            advantage = floor_advantage(
                advantage, batch.human, self.cfg.intervention_min_advantage / self.cfg.temperature
            )
        policy = self.trainer.policy
        loss = policy.loss(batch.obs, policy.to_env(batch.obs, batch.act), self.generator)
        weights = advantage_weights(advantage, self.cfg.max_weight)
        return {"loss": float(self.trainer.step(weights * loss))}

    def advantage(self, batch: Transitions) -> Tensor:
        """Advantages (B,) of the batch's chunks."""
        act = batch.act_with_masked_tail(self.generator)
        return self.inputs.critics.advantage(batch.obs, act, self.generator)


def floor_advantage(advantage: Tensor, rows: Tensor, least: float) -> Tensor:
    """Return advantages (B,), raised to at least ``least`` where ``rows`` (B,) is true."""
    return torch.where(rows, advantage.clamp(min=least), advantage)


def advantage_weights(advantage: Tensor, max_weight: float) -> Tensor:
    """Return exp of scaled advantages (B,), clipped to ``max_weight`` and divided by the mean."""
    raw = advantage.exp().clamp(max=max_weight)
    return raw / raw.mean().clamp(min=1e-6)


def _spread(critics: OfflineCritics, replay: Replay) -> float:
    """Standard deviation of the advantages over a sample of the data."""
    generator = make_generator("spread", 0)
    batch = replay.sample(_SEEN, generator)
    act = batch.act_with_masked_tail(generator)
    return max(float(critics.advantage(batch.obs, act, generator).std()), 1e-6)
