"""Checks before demonstrations are recorded: images, relative actions, memory, disk, statistics."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from robo_rl.core.errors import Notice
from robo_rl.critic.inputs import critic_inputs, unread_words
from robo_rl.data.normalize import Normalizer
from robo_rl.policy.base import DenoisingPolicy

if TYPE_CHECKING:
    from robo_rl.train.pipeline.experiment import Experiment


def check_sight(experiment: Experiment, places: Mapping[str, Path]) -> None:
    """Build the policy once with the specs of its env, if its settings depend on them.

    These are images, relative actions, pretrained statistics and tokens.

    Args:
        experiment: The experiment.
        places: Label → folder of the stages that are to run; it need not exist.

    Raises:
        SpecError: The policy or its critic does not read what the env observes.
        ConfigError: A camera does not exist, or an image does not fit the encoder.
        DataError: Pretrained statistics are those of other arrays.
        DeviceError: This machine cannot render, or has too little memory or disk for a stage.
    """
    stages, policy = [experiment.stages[label] for label in places], experiment.policy
    if not any(each.cls.output_policy(each.cfg, None, policy) is policy for each in stages):
        return
    seeing = policy.cfg.sees or policy.cfg.encoder.cls.reads_images or _has_cameras(experiment)
    pretrained = any(getattr(each.cfg, "pretrained_statistics", False) for each in stages)
    if not (seeing or pretrained or policy.cfg.relative_to or policy.cls.depends_on_actions):
        return
    with closing(experiment.make_env(1)) as env, torch.random.fork_rng(devices=[]):
        relative = policy.cfg.relative_to
        normalizer = Normalizer.identity(env.obs_spec, env.act_spec, relative)
        built = policy.build(env.obs_spec, env.act_spec, normalizer).to(experiment.place)
        for stage, folder in zip(stages, places.values(), strict=True):
            stage.cls.check_resources(stage.cfg, built, folder)
            _check_critic(getattr(getattr(stage.cfg, "algo", None), "cfg", None), built)


def _check_critic(cfg: Any, policy: DenoisingPolicy) -> None:
    """Check that the critic of an algorithm's settings finds what it reads, and the goal."""
    critic = getattr(cfg, "critic", None) if getattr(cfg, "has_critic", True) else None
    if critic is not None and getattr(cfg, "critic_reads", "state") == "state":
        sees = getattr(critic, "sees", ())
        critic_inputs(policy.env_spec, sees)
        if (doubt := unread_words(policy.obs_spec, sees)) is not None:
            warnings.warn(str(doubt), Notice, stacklevel=3)


def _has_cameras(experiment: Experiment) -> bool:
    """Return whether the settings of the env, or of an env inside it, name cameras."""
    return _names_cameras(experiment.model_dump(mode="json", include={"env"}))


def _names_cameras(settings: Any) -> bool:
    if not isinstance(settings, dict):
        return False
    return bool(settings.get("cameras")) or any(map(_names_cameras, settings.values()))
