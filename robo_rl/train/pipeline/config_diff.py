"""Differences between an experiment and the config of an existing run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from robo_rl.config.compose import compose
from robo_rl.config.differences import UNSET, Difference, differences
from robo_rl.core.errors import ConfigError

_IDLE = frozenset({"name", "launch"})
"""Keys that never change a stage."""
_WAIVERS = "waive"
"""Key that changes only the stages that heed it."""
_NAMED = 4
"""Maximum number of settings in the text."""


def changed_settings(
    config: Path, settings: Mapping[str, Any], *, heeded: Collection[str] = ()
) -> str | None:
    """Return the changed settings of a recorded run: 'key: then → now; …'.

    Args:
        config: The run's ``config.yaml``.
        settings: Current settings, as plain values.
        heeded: Stages for which the presence of a waiver matters; these come first.

    Returns:
        None without differences, or if the old settings cannot be read.
    """
    try:
        then = compose(str(config)).values
    except ConfigError:
        return None
    found = list(differences(then, dict(settings)))
    waived = [each for each in found if _is_waiver(each) and each.path[-1] in heeded]
    found = waived + [each for each in found if each.path[0] not in {*_IDLE, _WAIVERS}]
    said = [f"{each.key}: {each.one} → {each.other}" for each in found[:_NAMED]]
    more = [f"and {len(found) - _NAMED} more"] if len(found) > _NAMED else []
    return "; ".join(said + more) or None


def _is_waiver(difference: Difference) -> bool:
    """Return whether only one of both configs waives the stage."""
    return difference.path[0] == _WAIVERS and UNSET in (difference.one, difference.other)
