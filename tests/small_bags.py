"""Bags that others might have made, and datasets of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from small_flights import NAMES

from robo_rl.config.registry import component
from robo_rl.data.zarr_store import ZarrStore
from robo_rl_sim2real.messages.kinds import Kind, to_message
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.messages.rosbags_types import dialect_of, store_of
from robo_rl_sim2real.recording.bag import Bag
from robo_rl_sim2real.recording.log import Message

STORE = store_of("jazzy")
BEGUN_NS = 1_700_000_000_000_000_000
JOINTS = "/joint_states"
Said = tuple[float, str, Kind, Reading]


def joints(at_s: float, pos: np.ndarray, names: tuple[str, ...] = NAMES) -> Said:
    stamp_s = max(at_s, 1e-9)  # at 0 a header would say when the test runs
    return at_s, JOINTS, Kind.JOINT_STATES, Reading({"position": pos}, names, stamp_s)


def write(path: Path, said: Iterable[Said]) -> Path:
    bag = Bag(path, STORE)
    for at_s, topic, kind, reading in said:
        message = to_message(kind, reading, dialect_of(STORE))
        cdr = bytes(STORE.serialize_cdr(message, kind.value))
        bag.write(Message(topic, kind.value, BEGUN_NS + round(1e9 * at_s), cdr))
    bag.close()
    return path


def convert(run: Path, out: Path, **fields: Any) -> ZarrStore:
    component("converters").make({"name": "rosbag", **fields}).build().convert(run, out)
    return ZarrStore.open(out)
