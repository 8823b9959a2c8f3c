"""Attaches a recorder to a node for the duration of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from robo_rl.bundle.bundle import Bundle
from robo_rl.core.errors import ConfigError
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.recording.topics import FORMAT, VERSION
from robo_rl_sim2real.transport.base import SENSOR

if TYPE_CHECKING:
    from robo_rl_sim2real.recording.message_encoder import ClockOrigin
    from robo_rl_sim2real.recording.recorder import FlightRecorder


@contextmanager
def recording_node(
    node: Node, bundle: Bundle, settings: DeploySettings
) -> Generator[FlightRecorder | None]:
    """Record the node according to its settings; the request ``record`` saves a ring's content.

    Args:
        node: Node to record.
        bundle: Its bundle.
        settings: Its settings.

    Yields:
        The recorder; None without recording.

    Raises:
        ConfigError: The folder cannot be written, its disk is nearly full, or a topic of
            ``record.extra_topics`` cannot be subscribed to.
    """
    if settings.record.mode == "off":
        yield None
        return
    recorder = _attached(node, bundle, settings)
    try:
        yield recorder
    finally:
        recorder.close()


def _attached(node: Node, bundle: Bundle, settings: DeploySettings) -> FlightRecorder:
    from robo_rl_sim2real.recording.message_encoder import ClockOrigin, MessageEncoder
    from robo_rl_sim2real.recording.recorder import FlightRecorder

    origin = ClockOrigin(node.clock.now_s(), time.time_ns())
    log = MessageEncoder(
        _about(node, bundle, settings, origin),
        node.runtime.measured.names,
        origin,
    )
    clock = node.clock
    recorder = FlightRecorder(settings.record, log, clock.now_s, lambda: node.health._asdict())
    try:
        _subscribe_extra(node, settings, recorder)
    except BaseException:
        recorder.close()
        raise
    node.register("record", recorder.save)
    node.listeners.add(recorder)
    return recorder


def _subscribe_extra(node: Node, settings: DeploySettings, recorder: FlightRecorder) -> None:
    for topic, kind in settings.record.extra_topics.items():
        if topic in node.wiring.readings:
            continue
        try:
            node.subscribe(topic, kind, _hear(recorder, topic, kind), SENSOR)
        except Exception as error:  # of the transport's library
            raise ConfigError(
                f"record.extra_topics: '{topic}' cannot be subscribed to",
                expected=kind.value,
                found=f"{type(error).__name__}: {error}",
                hint="does the node use the topic with another type?",
            ) from error


def _hear(recorder: FlightRecorder, topic: str, kind: MsgType) -> Callable[[Reading], None]:
    return lambda reading: recorder.on_message(topic, kind, reading)


def _about(
    node: Node, bundle: Bundle, settings: DeploySettings, origin: ClockOrigin
) -> dict[str, Any]:
    """Return the full metadata of a recording, so that it is readable without the bundle."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "robo_rl": version("robo-rl"),
        "bundle": bundle.digest,
        "contract": bundle.manifest.tree()["contract"],
        "settings": settings.model_dump(mode="json"),
        "joints": node.runtime.measured.names,
        "dry_run": node.dry_run,
        "clock": origin._asdict(),
    }
