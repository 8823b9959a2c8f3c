"""Warm start of an online algorithm's critics from offline training.

Weights have a meaning only for the inputs that they were fitted to: items and chunks in the network
units of one normaliser. So critics are saved with the description of their inputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from robo_rl.algo.base import Algorithm
from robo_rl.core.errors import ConfigError, Notice
from robo_rl.critic.inputs import critic_inputs
from robo_rl.critic.q import QCritic
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint import files as checkpoint
from robo_rl.train.pipeline.stage import Context

_INPUTS = "inputs"


def save_critics(
    directory: Path, critic: QCritic, settings: Mapping[str, Any], policy: DenoisingPolicy
) -> Path:
    """Write critics for ``load_offline_critics`` and return their directory.

    Args:
        directory: Its directory.
        critic: The critics.
        settings: Settings of offline training; ``critic`` holds those of the networks.
        policy: Policy for whose decisions they were learnt.

    Raises:
        CheckpointError: They cannot be written.
    """
    meta = {**settings, _INPUTS: _describe_inputs(critic.names, policy)}
    return checkpoint.save(directory, critic.net.state_dict(), meta)


def load_offline_critics(algo: Algorithm, context: Context) -> None:
    """Load the newest critics of an earlier stage into an algorithm that requests them.

    Args:
        algo: Algorithm; ``needs_critics`` says whether it requests them.
        context: Context of the stage, which provides the critics.

    Raises:
        ConfigError: No stage has made critics, or sizes, outputs or inputs differ from the
            algorithm's.
        CheckpointError: The checkpoint of the critics is damaged.
    """
    if not algo.needs_critics:
        return
    if not context.has_artifact("critics"):
        raise ConfigError(
            "there are no critics to begin from",
            where="algo.warm_start_critics",
            expected="a stage before that makes some, such as 'offline'",
        )
    place = context.artifact("critics")
    weights, settings = checkpoint.load(place)
    _demand_same_items(settings, algo, place)
    _demand_same_outputs(settings, algo, place)
    theirs, own = _sizes(weights), _sizes(algo.critic_weights())
    if theirs != own:
        raise ConfigError(
            "the critics to begin from are of other sizes",
            where=f"algo.critic, and {place}",
            expected=_shown(theirs),
            found=_shown(own),
            hint="members, hidden and head must be those of the stage's critics.critic",
        )
    _demand_same_inputs(settings, algo, place)
    algo.warm_start_critics(weights)


def _demand_same_items(settings: Mapping[str, Any], algo: Algorithm, place: Path) -> None:
    """Check that both critics read the same items: others may be just as wide.

    Raises:
        ConfigError: They do not.
    """
    theirs = set(settings.get("critic", {}).get("sees", ()))
    own = set(_critic_of(algo).sees)
    if theirs != own:
        raise ConfigError(
            "the critics to begin from read other items",
            where=f"algo.critic.sees, and {place}",
            expected=", ".join(sorted(theirs)) or "all vectors",
            found=", ".join(sorted(own)) or "all vectors",
        )


def _demand_same_outputs(settings: Mapping[str, Any], algo: Algorithm, place: Path) -> None:
    """Check that both critics compute the same from equal weights.

    Raises:
        ConfigError: Activation, normalisation or the values of a histogram's bins differ.
    """
    theirs = _meaning(QCritic.Config.model_validate(settings.get("critic", {})))
    own = _meaning(_critic_of(algo))
    changed = [name for name in own if own[name] != theirs[name]]
    if changed:
        raise ConfigError(
            "the critics to begin from compute other values from their weights",
            where=f"{', '.join(f'algo.critic.{name}' for name in changed)}, and {place}",
            expected=", ".join(str(theirs[name]) for name in changed),
            found=", ".join(str(own[name]) for name in changed),
        )


def _demand_same_inputs(settings: Mapping[str, Any], algo: Algorithm, place: Path) -> None:
    """Check that both critics read items and chunks in the same units.

    Critics of earlier revisions do not describe their inputs. They are taken with a warning.

    Raises:
        ConfigError: The normaliser or the horizons differ.
    """
    if (theirs := settings.get(_INPUTS)) is None:
        warnings.warn(
            f"{place}: an earlier revision saved the critics without the normalisation of their"
            " inputs, which is not checked; if a policy was cloned after the stage 'offline', run"
            " that stage again",
            Notice,
            stacklevel=2,
        )
        return
    seen = critic_inputs(algo.policy.env_spec, _critic_of(algo).sees)
    own = _describe_inputs(seen.items, algo.policy)
    if changed := [name for name in own if own[name] != theirs.get(name)]:
        raise ConfigError(
            "the critics to begin from read their inputs in other units than the policy",
            where=f"{', '.join(changed)} of the normaliser and horizons, and {place}",
            expected=f"{changed[0]}: {theirs.get(changed[0])}",
            found=own[changed[0]],
            hint="put the stage 'offline' after the stage that fits the policy's normalisation,"
            " such as 'bc', or set algo.warm_start_critics to false",
        )


def _describe_inputs(names: Iterable[str], policy: DenoisingPolicy) -> dict[str, Any]:
    """Return what scales a critic's inputs as JSON: horizons, reference, and the affine maps."""
    normalizer = policy.normalizer
    affines = {key: normalizer.affine(key) for key in (*(f"obs.{name}" for name in names), "act")}
    return {
        "obs_horizon": policy.obs_horizon,
        "exec_horizon": policy.exec_horizon,
        "relative_to": normalizer.relative_to,
        **{
            key: {"shift": affine.shift.tolist(), "scale": affine.scale.tolist()}
            for key, affine in affines.items()
        },
    }


def _meaning(cfg: QCritic.Config) -> dict[str, Any]:
    """Return the settings that give equal weights their meaning."""
    head = cfg.head
    bins = (head.bins, head.margin, head.bounds)
    return {
        "activation": cfg.activation,
        "layer_norm": cfg.layer_norm,
        "head": "one value" if head.kind in ("mse", "huber") else bins,
    }


def _critic_of(algo: Algorithm) -> QCritic.Config:
    return getattr(getattr(algo, "cfg", None), "critic", QCritic.Config())


def _sizes(weights: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(x.shape) for name, x in weights.items()}


def _shown(sizes: Mapping[str, tuple[int, ...]]) -> str:
    """Return the sizes of the weight matrices as text: members, inputs, outputs."""
    return ", ".join("×".join(map(str, size)) for size in sizes.values() if len(size) == 3)
