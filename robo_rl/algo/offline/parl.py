"""Policy-agnostic RL: a search for better chunks by Q, which the policy then clones.

At each observation of the data, chunks are drawn from the initial policy. The one with the highest
Q takes a few gradient-ascent steps on Q, and is cloned. The policy family only has to support
cloning. Source: Mark et al. 2024 (PA-RL, arXiv 2412.06685, sections 4.1 and 4.2).

It is one step of policy improvement: draws are of the initial policy throughout, and Q is that of
the stage's critics. PA-RL draws from the current policy, and its critic learns the values of
improved chunks.

Shapes: N rows of a batch, m draws a row, H horizon, A act_dim.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.offline.action_search import ActionSearch
from robo_rl.algo.offline.base import OfflineInputs
from robo_rl.algo.policy_samples import draw_candidates
from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.config.models import ConfigModel
from robo_rl.data.transitions import Transitions


class Parl(ActionSearch):
    """Clones the best chunks found from the policy's own chunks.

    Args:
        cfg: See Config.
        inputs: See ``OfflineInputs``.
    """

    class Config(ConfigModel):
        """Settings of the search and of cloning.

        Args:
            num_samples: m.
            gradient_steps: Gradient-ascent steps on Q; 0 keeps the best draw.
            step_size: Largest change of an element per step, in network units.
            minibatch: Observations of a minibatch.
            optim: Optimiser and weight averaging for cloning.
        """

        num_samples: int = Field(default=8, ge=1)
        gradient_steps: int = Field(default=5, ge=0)
        step_size: float = Field(default=0.002, gt=0.0)
        minibatch: int = Field(default=128, ge=1)
        optim: SupervisedTrainer.Config = SupervisedTrainer.Config(lr=3e-4)

    def __init__(self, cfg: Config, inputs: OfflineInputs) -> None:
        super().__init__(cfg, cfg.optim, cfg.minibatch, inputs)
        self.cfg, self.critics = cfg, inputs.critics

    def search(self, batch: Transitions) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the best chunks, and their mean gain in Q over the draws."""
        best, gained = self.improve_actions(batch.obs)
        return best, {"q_gain": gained}

    def improve_actions(self, obs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the best chunks (N, H, A) found, and their mean gain in Q over the draws."""
        draws = self.cfg.num_samples
        many = {name: each.repeat_interleave(draws, dim=0) for name, each in obs.items()}
        with torch.no_grad():
            drawn = draw_candidates(self.inputs.policy, many, self.generator)
            worth = self.critics.q_value(many, drawn, self.generator).view(-1, draws)
            top = worth.argmax(dim=1)
            best = drawn.unflatten(0, (-1, draws))[torch.arange(len(top), device=top.device), top]
        climbed = self._gradient_ascent(obs, best)
        with torch.no_grad():  # one call: both see the same random critics
            twice = {name: torch.cat([each, each]) for name, each in obs.items()}
            both = self.critics.q_value(twice, torch.cat([climbed, best]), self.generator)
            after, before = both.chunk(2)
            higher = after > before
            gained = torch.where(higher, after, before) - worth.mean(dim=1)
            return torch.where(higher[:, None, None], climbed, best), gained.mean()

    def _gradient_ascent(self, obs: dict[str, Tensor], act: Tensor) -> Tensor:
        """Move chunks up the gradient of Q; a row's largest element moves by ``step_size``."""
        for _ in range(self.cfg.gradient_steps):
            act = act.detach().requires_grad_()
            worth = self.critics.q_value(obs, act, self.generator).sum()
            (slope,) = torch.autograd.grad(worth, act)
            steepest = slope.abs().amax(dim=(1, 2), keepdim=True).clamp(min=1e-12)
            act = act + self.cfg.step_size * slope / steepest
        return act.detach()
