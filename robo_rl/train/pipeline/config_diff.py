"""In what an experiment differs from what a run's directory was made by."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from robo_rl.config.compose import KeyPath, compose
from robo_rl.config.models import leaves
from robo_rl.core.errors import ConfigError

_IDLE = frozenset({"name", "launch"})
"""What makes no stage another."""
_WAIVERS = "waive"
"""What makes another only of a stage that heeds it."""
_NAMED = 4
"""Settings that are named."""
_NONE = "unset"


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
        then = dict(leaves(compose(str(config)).values))
    except ConfigError:
        return None
    now = dict(leaves(dict(settings)))
    keys = [key for key in {**then, **now} if then.get(key, _NONE) != now.get(key, _NONE)]
    waived = [key for key in keys if key[:1] == (_WAIVERS,) and (key in then) != (key in now)]
    keys = [key for key in keys if key and key[0] not in {*_IDLE, _WAIVERS}]
    keys = [key for key in waived if key[-1] in heeded] + keys
    said = [_said(key, then, now) for key in keys[:_NAMED]]
    more = [f"and {len(keys) - _NAMED} more"] if len(keys) > _NAMED else []
    return "; ".join(said + more) or None


def _said(key: KeyPath, then: Mapping[KeyPath, Any], now: Mapping[KeyPath, Any]) -> str:
    return f"{'.'.join(map(str, key))}: {then.get(key, _NONE)} → {now.get(key, _NONE)}"
