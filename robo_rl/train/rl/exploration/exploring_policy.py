"""Replaces the exploring sampler of a cloned policy and keeps its network.

Several ways of fine-tuning can thus start from the same clone.
"""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import Field
from torch import nn

from robo_rl.config.component import Component, component
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.core.seeding import seeded_initialization
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Sampler


class ExplorationConfig(ConfigModel):
    """Exploring sampler and number of fine-tuned steps; null keeps the policy's setting."""

    sampler: Annotated[Component[Sampler], component("samplers")] | None = None
    """Exploring sampler; null keeps the policy's."""
    finetune_steps: int | None = Field(default=None, ge=0)
    """Denoising steps that RL trains, counted from the last; null keeps the policy's."""


def exploration_policy(
    policy: Component[DenoisingPolicy], cfg: ExplorationConfig
) -> Component[DenoisingPolicy] | None:
    """Return the policy's settings with another sampler; None where nothing changes.

    Raises:
        ConfigError: The sampler needs an output that the network lacks or changes the evaluated
            policy, or ``finetune_steps`` exceeds the number of denoising steps.
    """
    changes = cfg.model_dump(mode="json", exclude_none=True)
    if not changes:
        return None
    fields: dict[str, Any] = policy.cfg.model_dump(mode="json") | changes
    try:
        explores = component("policies").make({"name": policy.name, **fields})
    except ValueError as error:
        raise ConfigError(f"the policy cannot explore so: {error}") from error
    _check_evaluation(policy, explores)
    return explores


def _check_evaluation(policy: Component[DenoisingPolicy], explores: Component[Any]) -> None:
    """Check that evaluation takes nothing else from the other sampler."""
    was, now = (policy.cls.schedule_settings(each.cfg) for each in (policy, explores))
    for field, value in was.items():
        if value != now.get(field, value):
            raise ConfigError(
                "the exploring sampler would change the evaluated policy",
                where=f"exploration.sampler, {field}",
                expected=f"{value:g} as the policy's '{policy.cfg.sampler.name}'",
                found=f"{now[field]:g} of '{explores.cfg.sampler.name}'",
                hint="set it there if the sampler has it, or clone with the other sampler",
            )


def with_exploration(policy: DenoisingPolicy, cfg: ExplorationConfig, seed: int) -> DenoisingPolicy:
    """Return the policy with another sampler, or the policy itself where nothing changes.

    Args:
        policy: Policy with the network to copy.
        cfg: The changes.
        seed: Seed of the parameters of another sampler, which are initialised. Those of the same
            sampler stay.

    Raises:
        ConfigError: The sampler needs an output that the network lacks. Also raised where
            ``finetune_steps`` differs from that of earlier fine-tuning, because the first steps run
            on the reference network and the policy would act differently.
    """
    family = exploration_policy(Component("policies", policy.family, type(policy), policy.cfg), cfg)
    if family is None or family.cfg == policy.cfg:
        return policy
    if policy.reference_net is not None and family.cfg.finetune_steps != policy.cfg.finetune_steps:
        raise ConfigError(
            "other steps of the chain were trained before",
            where="exploration.finetune_steps",
            expected=policy.cfg.finetune_steps,
            found=family.cfg.finetune_steps,
        )
    with seeded_initialization("explore", seed):
        other = family.build(policy.env_spec, policy.act_spec, policy.normalizer)
    cast(nn.Module, other.net).load_state_dict(policy.net.state_dict())
    same_noise = family.cfg.sampler == policy.cfg.sampler
    if same_noise and policy.noise_head is not None:
        cast(nn.Module, other.noise_head).load_state_dict(policy.noise_head.state_dict())
    if policy.reference_net is not None:
        other.freeze_reference()
        cast(nn.Module, other.reference_net).load_state_dict(policy.reference_net.state_dict())
        if same_noise and policy.reference_noise_head is not None:
            frozen = policy.reference_noise_head.state_dict()
            cast(nn.Module, other.reference_noise_head).load_state_dict(frozen)
    return other.eval().to(policy.device)
