"""A policy that climbs action values: gradient of the critic through a reparameterised action.

Shapes: B rows, K denoising steps, H horizon, E executed actions (E ≤ H), A act_dim. Chunks are in
network units, as chains are.

Nothing is squashed: where the env clips, so does the critic, and Q is flat beyond the limits. An
action that has drifted out there would find no way back and its noise would explore nothing, so
what lies beyond costs its squared distance (``out_of_range``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.off_policy.reference_kl import ReferenceKl, ReferenceKlConfig, check_has_density
from robo_rl.core.stateful import Stateful
from robo_rl.optim.optimizer import ClippedOptimizer, OptimizerConfig
from robo_rl.policy.base import DenoisingPolicy

QFunction = Callable[[dict[str, Tensor], Tensor], Tensor]
"""(observations name → (B, To, …), chunks (B, H, A)) → values (B,)."""


class OffPolicyActorConfig(OptimizerConfig):
    """The actor's learning rate, and what its loss holds besides −Q.

    ``range_penalty`` is the price of a squared network unit by which an executed action lies beyond
    its limits, ``regularization`` that of leaving the policy that RL began with. Both are in the unit of
    values.
    """

    lr: float = Field(default=3e-4, gt=0.0)
    """Learning rate of the actor."""
    range_penalty: float = Field(default=1.0, ge=0.0)
    """Price of a squared network unit by which an executed action is beyond its limits."""
    regularization: ReferenceKlConfig = ReferenceKlConfig()
    """Penalties for leaving the policy that RL began with."""


class ActorTrainer(Stateful, ABC):
    """How a policy acts as far as values are concerned, and how it climbs them.

    Args:
        cfg: See ``OffPolicyActorConfig``.
        policy: Trained in place. If only its last K' steps are to be trained, or an anchor needs
            it, it keeps a frozen copy of its networks from now on.
        generator: Draws actions.

    Raises:
        ConfigError: An anchor is asked for, and no trained step has a density.
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
        self.low, self.high = (_in_network_units(policy, limit) for limit in limits)

    @staticmethod
    def check_policy(cfg: OffPolicyActorConfig, policy: DenoisingPolicy) -> None:
        """Refuse a policy that its anchor cannot hold, see ``ReferenceKl``."""
        if cfg.regularization.enabled:
            check_has_density(policy)

    @abstractmethod
    def next_action(self, obs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """What the policy would do next, (B, H, A), and what that costs besides, (B,)."""

    @abstractmethod
    def update(self, obs: dict[str, Tensor], value: QFunction) -> dict[str, Tensor]:
        """One step up the value; returns metrics."""

    def penalties(self, obs: dict[str, Tensor], act: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """What an action costs whatever its value, with gradient, and metrics.

        Args:
            obs: Name → (B, To, …).
            act: (B, H, A).
        """
        beyond = out_of_range(act[:, : self.policy.exec_horizon], self.low, self.high).mean()
        cost, metrics = self.cfg.range_penalty * beyond, {"out_of_range": beyond.detach()}
        if self.regularizer is not None:
            pull, kl = self.regularizer.penalty(self.policy, obs)
            cost, metrics = cost + pull, metrics | kl
        return cost, metrics

    def _loaded(self) -> None:
        if self.regularizer is not None:
            self.regularizer.reset_reference(self.policy)


def out_of_range(act: Tensor, low: Tensor | None, high: Tensor | None) -> Tensor:
    """Σ max(a − high, low − a, 0)² over the actions of a chunk: (B, E, A) → (B,)."""
    above = 0.0 if high is None else (act - high).clamp(min=0.0)
    below = 0.0 if low is None else (low - act).clamp(min=0.0)
    return (torch.zeros_like(act) + above + below).square().sum(dim=(1, 2))


def _in_network_units(policy: DenoisingPolicy, limit: tuple[float, ...]) -> Tensor | None:
    """A limit of the env's actions, (A,); None where there is none."""
    if not limit:
        return None
    normalizer = policy.normalizer
    return normalizer.normalize(
        "act", torch.tensor(limit, dtype=normalizer.dtype, device=normalizer.device)
    )
