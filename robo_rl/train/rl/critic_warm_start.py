"""Warm start of an online algorithm's critics from offline training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from robo_rl.algo.base import Algorithm
from robo_rl.core.errors import ConfigError
from robo_rl.critic.q import QCritic
from robo_rl.train.checkpoint import files as checkpoint
from robo_rl.train.pipeline.stage import Context


def load_offline_critics(algo: Algorithm, context: Context) -> None:
    """Load the newest critics of an earlier stage into an algorithm that requests them.

    Args:
        algo: Algorithm; ``needs_critics`` says whether it requests them.
        context: Context of the stage, which provides the critics.

    Raises:
        ConfigError: No stage has made critics, or their sizes differ from the algorithm's.
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
