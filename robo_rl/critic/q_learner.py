"""Temporal-difference learning of an ensemble of action values with a target network.

Shapes: B rows of a batch, M critics.
"""

from __future__ import annotations

from torch import Tensor

from robo_rl.core.stateful import Stateful
from robo_rl.critic.q import QCritic, td_target
from robo_rl.data.transitions import Transitions
from robo_rl.optim.ema import TargetNetwork
from robo_rl.optim.optimizer import ClippedOptimizer


class QLearner(Stateful):
    """Q, its target network Q' and its optimiser.

    Args:
        critic: Q, trained.
        lr: Learning rate.
        grad_clip: Largest gradient norm.
        target_ema: Decay of Q'.
    """

    state_parts = ("critic", "target", "optimizer")

    def __init__(self, critic: QCritic, *, lr: float, grad_clip: float, target_ema: float) -> None:
        self.critic = critic
        self.target = TargetNetwork(critic, target_ema)
        self.optimizer = ClippedOptimizer(critic.net.parameters(), lr, grad_clip)

    def td_step(
        self, batch: Transitions, next_value: Tensor, weights: Tensor | float = 1.0
    ) -> Tensor:
        """Take one gradient step towards Q(o, a) = rew + discount·(1 − terminated)·next_value.

        Args:
            batch: Transitions with masked chunk tails (``Transitions.act_with_masked_tail``).
            next_value: Value of the next observations, (B,) for all members or (M, B).
            weights: Weights of the rows, (B,) or (M, B).

        Returns:
            The loss: summed over the members, averaged over the rows.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        wanted = td_target(batch.rew, batch.discount, batch.terminated, next_value)
        loss = weights * self.critic.loss(batch.obs, batch.act, wanted)
        return self.descend(loss.sum(dim=0).mean())

    def descend(self, loss: Tensor) -> Tensor:
        """Take one gradient step of Q on a scalar loss, and update Q'; returns the detached loss.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        self.optimizer.step(loss)
        self.target.update(self.critic)
        return loss.detach()
