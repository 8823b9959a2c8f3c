"""Message types of rosbags: the interfaces of a ROS 2 distribution without ROS 2 installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean
from robo_rl_sim2real.messages.message_factory import MessageFactory

DISTROS = {
    "humble": Stores.ROS2_HUMBLE,
    "jazzy": Stores.ROS2_JAZZY,
    "kilted": Stores.ROS2_KILTED,
}
"""ROS 2 distribution → its interfaces."""


def type_store(distro: str) -> Typestore:
    """Return the interfaces of a distribution.

    Raises:
        ConfigError: The distribution is unknown.
    """
    if distro not in DISTROS:
        raise ConfigError(f"distro '{distro}'", hint=did_you_mean(distro, DISTROS))
    return get_typestore(DISTROS[distro])


def message_factory(store: Typestore) -> MessageFactory:
    """Return the message factory of these interfaces."""
    return MessageFactory(store.types.__getitem__, _floats, _octets, np.ascontiguousarray)


def _floats(values: Any) -> np.ndarray:
    return np.ascontiguousarray(values, np.float64)


def _octets(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)
