"""A policy as tensors and JSON, and back: what checkpoints and later stages hand around."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor

from robo_rl.data.normalize import Normalizer
from robo_rl.errors import CheckpointError
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.registry import component
from robo_rl.spec import ActSpec, ObsSpec


def describe(policy: DenoisingPolicy, name: str) -> dict[str, Any]:
    """Everything but the weights, as JSON: family ``name`` and config, specs, normaliser."""
    return {
        "policy": {"name": name, **policy.cfg.model_dump(mode="json")},
        "obs_spec": policy.obs_spec.model_dump(mode="json"),
        "act_spec": policy.act_spec.model_dump(mode="json"),
        "normalizer": policy.normalizer.to_meta(),
        "anchored": policy.base_net is not None,
    }


def rebuild(meta: dict[str, Any], tensors: dict[str, Tensor]) -> DenoisingPolicy:
    """The policy that ``describe`` and ``state_dict`` gave.

    Args:
        meta: What ``describe`` returned.
        tensors: The policy's ``state_dict``.

    Raises:
        CheckpointError: The weights do not fit the described network.
    """
    policy = cast(
        DenoisingPolicy,
        component("policies")
        .make(meta["policy"])
        .build(
            ObsSpec.model_validate(meta["obs_spec"]),
            ActSpec.model_validate(meta["act_spec"]),
            Normalizer.from_meta(meta["normalizer"]),
        ),
    )
    if meta["anchored"]:
        policy.anchor()
    try:
        policy.load_state_dict(tensors)
    except RuntimeError as error:
        raise CheckpointError("the weights do not fit the policy", found=str(error)) from error
    return policy
