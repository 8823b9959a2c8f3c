"""Conversion of a policy to tensors and JSON, and back, for checkpoints and later stages."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from robo_rl.config.component import component
from robo_rl.core.errors import CheckpointError
from robo_rl.core.spec import ActSpec, ObsSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.policy.base import DenoisingPolicy


def policy_meta(policy: DenoisingPolicy) -> dict[str, Any]:
    """Return everything except the weights as JSON: family and config, specs, normaliser.

    Raises:
        PluginError: The policy's class is not registered, so that nothing could load it.
    """
    return {
        "policy": {"name": policy.family, **policy.cfg.model_dump(mode="json")},
        "obs_spec": policy.env_spec.model_dump(mode="json"),
        "act_spec": policy.act_spec.model_dump(mode="json"),
        "normalizer": policy.normalizer.to_meta(),
        "anchored": policy.reference_net is not None,
        "progress": policy.progress,
    }


def policy_from_meta(meta: dict[str, Any], tensors: dict[str, Tensor]) -> DenoisingPolicy:
    """Rebuild a policy from ``policy_meta`` and ``state_dict``.

    Args:
        meta: The result of ``policy_meta``.
        tensors: The policy's ``state_dict``.

    Raises:
        CheckpointError: The description is damaged, its family is not installed, or the weights do
            not fit it.
    """
    try:
        policy = _build(meta)
        if meta["anchored"]:
            policy.freeze_reference()
        policy.set_progress(meta.get("progress", 0.0))
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise _unfit("cannot be rebuilt from its description", error) from error
    try:
        policy.load_state_dict(tensors)
    except RuntimeError as error:
        raise _unfit("does not fit its weights", error) from error
    return policy


def _build(meta: dict[str, Any]) -> DenoisingPolicy:
    return (
        component("policies")
        .make(meta["policy"])
        .build(
            ObsSpec.model_validate(meta["obs_spec"]),
            ActSpec.model_validate(meta["act_spec"]),
            Normalizer.from_meta(meta["normalizer"]),
        )
    )


def _unfit(problem: str, error: Exception) -> CheckpointError:
    reason = " ".join(str(error).split())
    return CheckpointError(problem, where="policy", found=f"{type(error).__name__}: {reason}")
