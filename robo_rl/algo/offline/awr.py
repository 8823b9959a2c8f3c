"""Cloning in which good actions count for more: a policy is improved without leaving the data.

Shapes: B rows of a batch, H actions of a chunk, A act_dim. The cloning loss of a family, flow or
diffusion, of every row times exp(advantage / temperature), held to ``cap``: the projection onto the
family of the best policy near the data (Peng et al. 2019, arXiv 1910.00177, eq. 10; with IQL's
advantages: Kostrikov et al. 2021, arXiv 2110.06169, eq. 7). Advantages count in units of their
spread over the data, so that a temperature means the same in every task; weights are divided by
their mean over the batch, so that a learning rate does.

What a human did who took over is what should have been done, whatever critics think of it: such
rows may count as no worse than some advantage (corrections count as good actions in RECAP, Physical
Intelligence 2025, arXiv 2511.14759).
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
"""Decisions of which the spread of advantages is taken."""


class Awr(SupervisedAlgorithm):
    """Goes on cloning a policy, rows weighted by what they are worth.

    Args:
        cfg: See Config.
        inputs: See ``OfflineInputs``.
    """

    class Config(ConfigModel):
        """``temperature`` in units of the advantages' spread, the largest weight, and cloning.

        ``intervention_min_advantage``, in the same units, is the least advantage that a row counts with which a human
        commanded; with 0 such rows are as any other.
        """

        temperature: float = Field(default=0.5, gt=0.0)
        """Temperature of the weights, in units of the spread of advantages."""
        max_weight: float = Field(default=20.0, gt=1.0)
        """Largest weight of a row."""
        intervention_min_advantage: float = Field(default=0.0, ge=0.0)
        """Least advantage of a row that a human commanded, in the same units; 0 is off."""
        minibatch: int = Field(default=256, ge=1)
        """Rows of a gradient step."""
        optim: SupervisedTrainer.Config = SupervisedTrainer.Config(lr=3e-4)
        """Optimiser, its schedule and the averaging of weights."""

    def __init__(self, cfg: Config, inputs: OfflineInputs) -> None:
        super().__init__(cfg, cfg.optim, inputs)
        self.cfg = cfg
        self.scale = cfg.temperature * _spread(inputs.critics, inputs.replay)

    def step(self) -> dict[str, float]:
        """One gradient step; returns the loss."""
        batch = self.replay.sample(self.cfg.minibatch, self.generator)
        advantage = self.advantage(batch) / self.scale
        if self.cfg.intervention_min_advantage:
            advantage = floor_advantage(
                advantage, batch.human, self.cfg.intervention_min_advantage / self.cfg.temperature
            )
        policy = self.trainer.policy
        loss = policy.loss(batch.obs, policy.to_env(batch.act), self.generator)
        weights = advantage_weights(advantage, self.cfg.max_weight)
        return {"loss": float(self.trainer.step(weights * loss))}

    def advantage(self, batch: Transitions) -> Tensor:
        """Of a batch's own chunks: (B,)."""
        act = batch.act_with_masked_tail(self.generator)
        return self.inputs.critics.advantage(batch.obs, act, self.generator)


def floor_advantage(advantage: Tensor, rows: Tensor, least: float) -> Tensor:
    """Advantages (B,), of some rows (B,) bool no lower than that."""
    return torch.where(rows, advantage.clamp(min=least), advantage)


def advantage_weights(advantage: Tensor, max_weight: float) -> Tensor:
    """Of advantages (B,) in units of the temperature: exp, held to cap, divided by their mean."""
    raw = advantage.exp().clamp(max=max_weight)
    return raw / raw.mean().clamp(min=1e-6)


def _spread(critics: OfflineCritics, replay: Replay) -> float:
    """Standard deviation of the advantages of the data, or of some of them."""
    generator = make_generator("spread", 0)
    batch = replay.sample(_SEEN, generator)
    act = batch.act_with_masked_tail(generator)
    return max(float(critics.advantage(batch.obs, act, generator).std()), 1e-6)
