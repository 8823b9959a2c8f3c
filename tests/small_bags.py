"""Bags that others might have made, and datasets of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from small_flights import NAMES

from robo_rl.config.component import component
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl_sim2real.messages.kinds import MsgType, to_message
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.messages.rosbags_types import message_factory, type_store
from robo_rl_sim2real.recording.bag_writer import BagWriter
from robo_rl_sim2real.recording.message_encoder import EncodedMessage

STORE = type_store("jazzy")
BEGUN_NS = 1_700_000_000_000_000_000
JOINTS = "/joint_states"
Said = tuple[float, str, MsgType, Reading]


def joints(at_s: float, pos: np.ndarray, names: tuple[str, ...] = NAMES) -> Said:
    stamp_s = max(at_s, 1e-9)  # at 0 a header would say when the test runs
    return at_s, JOINTS, MsgType.JOINT_STATES, Reading({"position": pos}, names, stamp_s)


def write(path: Path, said: Iterable[Said]) -> Path:
    bag = BagWriter(path, STORE)
    for at_s, topic, kind, reading in said:
        message = to_message(kind, reading, message_factory(STORE))
        cdr = bytes(STORE.serialize_cdr(message, kind.value))
        bag.write(EncodedMessage(topic, kind.value, BEGUN_NS + round(1e9 * at_s), cdr))
    bag.close()
    return path


def convert(run: Path, out: Path, **fields: Any) -> ZarrStore:
    component("converters").make({"name": "rosbag", **fields}).build().convert(run, out)
    return ZarrStore.open(out)
