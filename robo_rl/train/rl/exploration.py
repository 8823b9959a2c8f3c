"""Another way to explore for a policy that was cloned under one: its network stays as it is.

So that several ways of fine-tuning can start from one and the same clone.
"""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import Field
from torch import nn

from robo_rl.config.models import ConfigModel
from robo_rl.config.registry import Component, component
from robo_rl.core.errors import ConfigError
from robo_rl.core.seeding import seeded_initialization
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Sampler


class ExplorationConfig(ConfigModel):
    """The exploring sampler, and how many steps RL trains; what is not given stays."""

    sampler: Annotated[Component[Sampler], component("samplers")] | None = None
    """Exploring sampler; null keeps the policy's."""
    finetune_steps: int | None = Field(default=None, ge=0)
    """Denoising steps that RL trains, counted from the last; null keeps the policy's."""


def exploration_policy(
    policy: Component[DenoisingPolicy], cfg: ExplorationConfig
) -> Component[DenoisingPolicy] | None:
    """The family's settings under another sampler; None where nothing is to change.

    Raises:
        ConfigError: The sampler reads what this family's network does not say, or there are not so
            many steps.
    """
    changes = cfg.model_dump(mode="json", exclude_none=True)
    if not changes:
        return None
    fields: dict[str, Any] = policy.cfg.model_dump(mode="json") | changes
    try:
        return component("policies").make({"name": policy.name, **fields})
    except ValueError as error:
        raise ConfigError(f"the policy cannot explore so: {error}") from error


def with_exploration(policy: DenoisingPolicy, cfg: ExplorationConfig, seed: int) -> DenoisingPolicy:
    """The policy under another sampler; itself where nothing is to change.

    Args:
        policy: Whose network is copied.
        cfg: What changes.
        seed: Of what the sampler learns, which begins anew.

    Raises:
        ConfigError: The sampler reads what this family's network does not say, or other steps are
            to be trained than those that were: a policy whose first steps run on a copy from before
            would act otherwise.
    """
    family = exploration_policy(Component("policies", policy.family, type(policy), policy.cfg), cfg)
    if family is None:
        return policy
    if policy.reference_net is not None and family.cfg.finetune_steps != policy.cfg.finetune_steps:
        raise ConfigError(
            "other steps of the chain were trained before",
            where="exploration.finetune_steps",
            expected=policy.cfg.finetune_steps,
            found=family.cfg.finetune_steps,
        )
    with seeded_initialization("explore", seed):
        other = family.build(policy.obs_spec, policy.act_spec, policy.normalizer)
    cast(nn.Module, other.net).load_state_dict(policy.net.state_dict())
    if policy.reference_net is not None:
        other.freeze_reference()
        cast(nn.Module, other.reference_net).load_state_dict(policy.reference_net.state_dict())
    return other.eval()
