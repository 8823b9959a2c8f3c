"""Weights of simulated transitions by the likelihood ratio of real and simulated dynamics.

Two discriminators separate logged (real) from collected (simulated) transitions. One sees the
observation and the chunk; the other also sees the outcome. By Bayes' rule the difference of their
log-odds is

    log p_real(o'|o, a) − log p_sim(o'|o, a) = l(o, a, o') − l(o, a)

for any two policies and any number of rows of each kind. The squared TD error of a simulated
transition is weighted by that ratio, clipped to [min_weight, 1]. Real transitions have weight 1.
Sources: H2O, Niu et al. 2022, arXiv 2206.13464; discriminators of DARC, Eysenbach et al. 2020,
arXiv 2006.13916.

The second discriminator is the first plus a term of the outcome, and this term is the log-ratio.
The outcome holds the next observation, the executed share of the chunk, and whether the task
terminated. After termination the next observation is masked.

This module implements only the TD-error weights of H2O. Its pessimism is not implemented: there,
log Σ ω·exp Q lowers values of simulated decisions, with an ω averaged over perturbed successors,
and values of real decisions are raised.

Shapes: B rows of a batch, O observation features, E executed actions, A act_dim.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.core.stateful import Stateful
from robo_rl.critic.q import QCritic
from robo_rl.data.transitions import Transitions
from robo_rl.nets.base import dense
from robo_rl.optim.optimizer import ClippedOptimizer
from robo_rl.policy.chain import randn


class DynamicsGap(Stateful):
    """The discriminators, and the weights computed from them.

    Args:
        cfg: See Config.
        critic: Encodes the discriminators' observations and chunks.
        generator: Draws noise.
    """

    class Config(ConfigModel):
        """Networks, their optimiser, and the smallest weight.

        ``noise`` is the std of the noise on all inputs during training, in network units. It limits
        overfitting to single rows.
        """

        hidden: tuple[int, ...] = Field(default=(256, 256), min_length=1)
        """Widths of the hidden layers of the discriminators."""
        lr: float = Field(default=3e-4, gt=0.0)
        """Learning rate of the discriminators."""
        grad_clip: float = Field(default=10.0, gt=0.0)
        """Largest norm of a gradient."""
        noise: float = Field(default=0.1, ge=0.0)
        """Standard deviation of the noise on the discriminators' inputs, in network units."""
        min_weight: float = Field(default=1e-5, gt=0.0, le=1.0)
        """Smallest weight of a simulated transition."""

    state_parts: ClassVar[tuple[str, ...]] = ("nets", "optimizer")

    def __init__(self, cfg: Config, critic: QCritic, generator: torch.Generator) -> None:
        self.cfg, self.critic, self.generator = cfg, critic, generator
        outcome = critic.features + 2
        nets = {
            "decision": dense([critic.num_inputs, *cfg.hidden, 1]),
            "outcome": dense([critic.num_inputs + outcome, *cfg.hidden, 1]),
        }
        self.nets = nn.ModuleDict(nets).to(next(critic.net.parameters()))
        self.optimizer = ClippedOptimizer(self.nets.parameters(), cfg.lr, cfg.grad_clip)

    def step(self, batch: Transitions) -> dict[str, Tensor]:
        """Take one gradient step of both discriminators; returns losses.

        The unexecuted tail of ``batch.act`` must be masked, as for the critics.

        Raises:
            ConfigError: No row of the batch is real.
            PluginError: Gradients were not finite for long.
        """
        _check_has_real_rows(batch)
        decision, added = self._log_odds(batch, self.cfg.noise)
        real = batch.demo.to(decision)
        losses = {
            "gap_decision_loss": F.binary_cross_entropy_with_logits(decision, real),
            "gap_outcome_loss": F.binary_cross_entropy_with_logits(decision.detach() + added, real),
        }
        self.optimizer.step(torch.stack([*losses.values()]).sum())
        return {name: loss.detach() for name, loss in losses.items()}

    @torch.no_grad()
    def weights(self, batch: Transitions) -> Tensor:
        """Weights (B,) of the rows' squared TD errors; 1 for real rows."""
        _, added = self._log_odds(batch, 0.0)
        return torch.where(
            batch.demo, 1.0, added.clamp(max=0.0).exp().clamp(min=self.cfg.min_weight)
        )

    def _log_odds(self, batch: Transitions, noise: float) -> tuple[Tensor, Tensor]:
        """Log-odds of being real by the decision, and the added term of the outcome, each (B,)."""
        decision = self.critic.join_inputs(self.critic.encode(batch.obs), batch.act)
        both = torch.cat([decision, self._outcome(batch)], dim=-1)
        if noise:
            both = both + noise * randn(both.shape, self.generator).to(both)
        decision = both[:, : decision.shape[1]]
        return self.nets["decision"](decision)[:, 0], self.nets["outcome"](both)[:, 0]

    def _outcome(self, batch: Transitions) -> Tensor:
        """The outcome: masked next observation, termination flag, executed share of the chunk."""
        led_to = self.critic.encode(batch.next_obs)
        ended = batch.terminated[:, None]
        share = batch.num_exec[:, None].to(led_to) / self.critic.exec_horizon
        return torch.cat([led_to * ~ended, ended.to(led_to), share], dim=-1)


def _check_has_real_rows(batch: Transitions) -> None:
    if not bool(batch.demo.any()):
        raise ConfigError(
            "the batch has no logged transitions of the real robot",
            where="dynamics_gap",
            expected="logged transitions in every batch",
            found=f"none of {len(batch.demo)}",
            hint="take a dataset of the robot, and a replay.demo_fraction that gives it rows",
        )
