"""KL regularization of an off-policy actor towards its reference policy, in closed form.

Shapes: B rows, J trained steps with a density, H horizon, E executed actions, A act_dim. The
penalty draws new chains. On-policy algorithms use the chains of the rollout instead
(``algo.ppo.regularizers``).
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.ppo.batch.actor_batch import copy_exploration
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.nets.embedding import repeat_rows
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.kernels.base import Kernel


class ReferenceKlConfig(ConfigModel):
    """Coefficients of KL(reference ‖ policy) and KL(policy ‖ reference) per decision; 0 is off."""

    forward_kl: float = Field(default=0.0, ge=0.0)
    """Coefficient of KL(reference ‖ policy); 0 is off."""
    reverse_kl: float = Field(default=0.0, ge=0.0)
    """Coefficient of KL(policy ‖ reference); 0 is off."""

    @property
    def enabled(self) -> bool:
        """Whether any coefficient is above 0."""
        return bool(self.forward_kl or self.reverse_kl)


class ReferenceKl:
    """The KL penalty, at the states of chains that the policy draws.

    By the chain rule, the KL of two chains is the sum of the KLs of their steps, in expectation
    over states of the first chain. Here both directions use the states of the policy's chains. The
    states are detached: the gradient changes the step from a state, not the visited states.

    Args:
        cfg: Coefficients.
        policy: The regularized policy.
        generator: Draws the chains.

    Raises:
        ConfigError: No trained step has a density.
    """

    def __init__(
        self, cfg: ReferenceKlConfig, policy: DenoisingPolicy, generator: torch.Generator
    ) -> None:
        self.cfg, self.generator = cfg, generator
        check_has_density(policy)
        self.steps = policy.trainable_steps.nonzero().flatten()
        self.base = policy.reference_policy()

    def reset_reference(self, policy: DenoisingPolicy) -> None:
        """Take the reference policy of a policy that was loaded."""
        self.base = policy.reference_policy()

    def penalty(
        self, policy: DenoisingPolicy, obs: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the weighted mean penalty with gradient, and both KLs without."""
        ours, theirs = self._kernels(policy, obs)
        rows, executed = len(next(iter(obs.values()))), policy.exec_horizon
        pairs = {"forward_kl": (theirs, ours), "reverse_kl": (ours, theirs)}
        kls = {
            name: (one.kl(other) + one.kl_shape_term(other))[:, :executed].sum() / rows
            for name, (one, other) in pairs.items()
        }
        total = self.cfg.forward_kl * kls["forward_kl"] + self.cfg.reverse_kl * kls["reverse_kl"]
        return total, {name: kl.detach() for name, kl in kls.items()}

    def _kernels(self, policy: DenoisingPolicy, obs: dict[str, Tensor]) -> tuple[Kernel, Kernel]:
        """Kernels of the policy and the reference at all trained steps: (B·J, H, A)."""
        with torch.no_grad():
            states = policy.sample(obs, self.generator).x[:, self.steps]
        k, terms = self.steps.repeat(len(states)), len(self.steps)
        base = copy_exploration(self.base, policy)
        embeddings = [repeat_rows(each.encode(obs), terms) for each in (policy, base)]
        x = states.flatten(0, 1)
        ours, theirs = (
            each.kernel(embedding, k, x)
            for each, embedding in zip((policy, base), embeddings, strict=True)
        )
        return ours, theirs


def check_has_density(policy: DenoisingPolicy) -> None:
    """Check that at least one trained step is stochastic.

    Raises:
        ConfigError: No trained step is stochastic.
    """
    if not bool(policy.trainable_steps.any()):
        raise ConfigError(
            "regularization needs a trained step with noise",
            found=f"sampler '{policy.cfg.sampler.name}'",
            hint="choose a sampler that explores at the last steps, such as flow_noise",
        )
