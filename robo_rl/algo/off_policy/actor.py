"""Actor training by the gradient of the critic through a reparameterised action.

Shapes: B rows, K denoising steps, H horizon, E executed actions (E ≤ H), A act_dim. Chunks are in
network units, as chains are.

Actions are not squashed. The env and the critic clip them, so Q is flat beyond the limits. A
squared penalty on the excess gives such actions a gradient back to the limits (``out_of_range``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.off_policy.reference_kl import ReferenceKl, ReferenceKlConfig, check_has_density
from robo_rl.core.errors import ConfigError
from robo_rl.core.stateful import Stateful
from robo_rl.optim.optimizer import ClippedOptimizer, OptimizerConfig
from robo_rl.policy.base import DenoisingPolicy

QFunction = Callable[[dict[str, Tensor], Tensor], Tensor]
"""(observations name → (B, To, …), chunks (B, H, A)) → values (B,)."""


class OffPolicyActorConfig(OptimizerConfig):
    """The actor's learning rate, and the penalties that its loss adds to −Q.

    ``range_penalty`` weighs the squared excess of an executed action beyond its limits, in network
    units. ``regularization`` weighs the KL to the reference policy. Both are in the unit of values.
    """

    lr: float = Field(default=3e-4, gt=0.0)
    """Learning rate of the actor."""
    range_penalty: float = Field(default=1.0, ge=0.0)
    """Weight of the squared excess of an executed action beyond its limits, in network units."""
    regularization: ReferenceKlConfig = ReferenceKlConfig()
    """KL penalties towards the reference policy, the one that RL starts with."""


class ActorTrainer(Stateful, ABC):
    """Trains an actor on the critic's values, and returns its next actions for TD targets.

    Args:
        cfg: See ``OffPolicyActorConfig``.
        policy: Trained in place. A frozen reference copy of its networks is made if only the last
            K' steps are trained or the regularization needs one.
        generator: Draws actions.

    Raises:
        ConfigError: Regularization is on, and no trained step has a density.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("policy", "optimizer")

    def __init__(
        self, cfg: OffPolicyActorConfig, policy: DenoisingPolicy, generator: torch.Generator
    ) -> None:
        if (
            policy.cfg.finetune_steps or cfg.regularization.enabled
        ) and policy.reference_net is None:
            policy.freeze_reference()
        self.cfg, self.policy, self.generator = cfg, policy, generator
        params = (p for p in policy.parameters() if p.requires_grad)
        self.optimizer = ClippedOptimizer(params, cfg.lr, cfg.grad_clip)
        self.regularizer = (
            ReferenceKl(cfg.regularization, policy, generator)
            if cfg.regularization.enabled
            else None
        )
        limits = policy.act_spec.low, policy.act_spec.high
        self._limits = tuple(_limit(policy, each) for each in limits)

    @staticmethod
    def check_policy(cfg: OffPolicyActorConfig, policy: DenoisingPolicy) -> None:
        """Refuse a policy without gradients, or that ``ReferenceKl`` does not support."""
        check_reparameterized(policy)
        if cfg.regularization.enabled:
            check_has_density(policy)

    @abstractmethod
    def next_action(self, obs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the next action (B, H, A) and its cost (B,), which TD targets subtract."""

    @abstractmethod
    def update(self, obs: dict[str, Tensor], value: QFunction) -> dict[str, Tensor]:
        """Take one gradient step that raises the value; returns metrics."""

    def penalties(self, obs: dict[str, Tensor], act: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the penalties of an action, with gradient, and metrics.

        Args:
            obs: Name → (B, To, …).
            act: (B, H, A).
        """
        limits = (
            each if each is None else self.policy.from_env(obs, each) for each in self._limits
        )
        beyond = out_of_range(act[:, : self.policy.exec_horizon], *limits).mean()
        cost, metrics = self.cfg.range_penalty * beyond, {"out_of_range": beyond.detach()}
        if self.regularizer is not None:
            pull, kl = self.regularizer.penalty(self.policy, obs)
            cost, metrics = cost + pull, metrics | kl
        return cost, metrics

    def _loaded(self) -> None:
        if self.regularizer is not None:
            self.regularizer.reset_reference(self.policy)


def check_reparameterized(policy: DenoisingPolicy) -> None:
    """Check that gradients of a critic reach the policy through its actions.

    Raises:
        ConfigError: It draws tokens.
    """
    if not policy.reparameterized:
        raise ConfigError(
            "a critic's gradient does not reach a policy that draws tokens",
            expected="policy flow, diffusion or gaussian, or algorithm ppo",
            found=f"policy '{policy.family}'",
        )


def out_of_range(act: Tensor, low: Tensor | None, high: Tensor | None) -> Tensor:
    """Σ max(a − high, low − a, 0)² over the actions of a chunk: (B, E, A) → (B,)."""
    above = 0.0 if high is None else (act - high).clamp(min=0.0)
    below = 0.0 if low is None else (low - act).clamp(min=0.0)
    return (torch.zeros_like(act) + above + below).square().sum(dim=(1, 2))


def _limit(policy: DenoisingPolicy, limit: tuple[float, ...]) -> Tensor | None:
    """Return a limit of the env's actions (1, 1, A) in physical units; None without a limit."""
    if not limit:
        return None
    normalizer = policy.normalizer
    return torch.tensor([[limit]], dtype=normalizer.dtype, device=normalizer.device)
