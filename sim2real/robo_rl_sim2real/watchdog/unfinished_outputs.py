"""Finishes the outputs of a policy process that was killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from robo_rl.core.atomic_files import write_file
from robo_rl.core.errors import DataError
from robo_rl_sim2real.control.health import Health
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.watchdog.heartbeat import Heartbeat
from robo_rl_sim2real.watchdog.job import UnfinishedOutputs


def finish_outputs(estate: UnfinishedOutputs, what: str, beat: Heartbeat | None) -> list[str]:
    """Recover its recordings and write its health; return messages on successes and failures.

    Args:
        estate: Outputs to finish.
        what: Description of the process's end.
        beat: Its last beat.
    """
    recorded, said = _mended(estate) if estate.recordings else ([], [])
    if not estate.health:
        return said
    health = {**_health(what, 0 if beat is None else beat.number), "recorded": recorded}
    try:
        write_file(Path(estate.health), json.dumps(health, indent=2).encode() + b"\n")
    except OSError as error:
        return [*said, f"its health was not written: {error.strerror or error}"]
    return [*said, f"its health: {estate.health}"]


def _health(what: str, ticks: int) -> dict[str, Any]:
    """Return the health as far as it is known; unknown values are null."""
    known = {"state": State.FAULTED.value, "reason": what, "ticks": ticks, "problem": what}
    unknown = dict.fromkeys((*Health._fields, "recording_problems"))
    return {**unknown, **known, "ended": "killed"}


def _mended(estate: UnfinishedOutputs) -> tuple[list[str], list[str]]:
    """Return the complete recordings, and the messages on all recordings."""
    # Imported after the robot stands still, because rosbags loads slowly.
    from robo_rl_sim2real.recording.recovery import is_truncated, recover_bag, recovered_path

    whole, said = list[str](), list[str]()
    for bag in sorted(Path(estate.recordings).iterdir()):
        if not any(bag.glob("*.mcap")) or bag.stat().st_mtime < estate.since_s:
            continue
        out = recovered_path(bag) if is_truncated(bag) else bag
        try:
            if out != bag:
                recover_bag(bag, out)
        except DataError as error:
            said.append(str(error))
        else:
            whole.append(str(out))
            said.append(f"recorded: {out}")
    return whole, said
