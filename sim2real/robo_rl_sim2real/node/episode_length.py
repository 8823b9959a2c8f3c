"""Episode length in training, compared with the ramp of a deployment."""

from __future__ import annotations

from typing import Any

from robo_rl.bundle.manifest import Manifest
from robo_rl_sim2real.node.settings import DeploySettings

_SHARE = 0.25


def ramp_warning(settings: DeploySettings, manifest: Manifest) -> str:
    """Return a warning if the ramp takes a large share of an episode; empty otherwise."""
    ramp_s, episode_s = settings.lifecycle.ramp_s, episode_seconds(manifest)
    if episode_s <= 0.0 or ramp_s <= _SHARE * episode_s:
        return ""
    return (
        f"the ramp takes {ramp_s:g} s (lifecycle.ramp_s) of an episode that took {episode_s:g} s "
        f"in training, {100.0 * ramp_s / episode_s:.0f} %: a task with a time limit may fail for it"
    )


def episode_seconds(manifest: Manifest) -> float:
    """Return the task's time limit by the run's configuration; 0 without one."""
    found: Any = manifest.config
    for key in ("task", "episode_s"):
        found = found.get(key) if isinstance(found, dict) else None
    return float(found) if isinstance(found, int | float) else 0.0
