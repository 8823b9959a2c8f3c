"""In what an experiment differs from what a run's directory was made by."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from robo_rl.config.compose import compose
from robo_rl.config.differences import UNSET, Difference, differences
from robo_rl.core.errors import ConfigError

_IDLE = frozenset({"name", "launch"})
"""What makes no stage another."""
_WAIVERS = "waive"
"""What makes another only of a stage that heeds it."""
_NAMED = 4
"""Settings that are named."""


def changed_settings(
    config: Path, settings: Mapping[str, Any], *, heeded: Collection[str] = ()
) -> str | None:
    """The settings in which a run that was written down differs: 'key: then → now; …'.

    Args:
        config: The run's ``config.yaml``.
        settings: Those of now, as plain values.
        heeded: Stages of which it matters whether they are waived, not why; these come first.

    Returns:
        None where they do not differ, or nobody can read any more what they were.
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
    """Whether a stage is waived in one of both alone."""
    return difference.path[0] == _WAIVERS and UNSET in (difference.one, difference.other)
