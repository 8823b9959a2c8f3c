"""The flight recorder: receives a node's events and writes them in a thread of its own.

It never delays the control loop. Events go to a bounded backlog; those that do not fit are dropped,
counted and reported.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl_sim2real.control.events import Tick
from robo_rl_sim2real.messages.kinds import MsgType, RequiredTopicName
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.recording.backlog import Backlog
from robo_rl_sim2real.recording.items import (
    EventItem,
    HealthItem,
    Item,
    MessageItem,
    size_of,
)

if TYPE_CHECKING:
    from robo_rl_sim2real.recording.message_encoder import MessageEncoder
    from robo_rl_sim2real.recording.sinks import Sink

_POLL_S = 0.02
_FLUSH_S = 1.0
_HEALTH_S = 1.0
_CLOSE_S = 30.0
"""Time limit for writing what remains at the end."""
_MB = 1_000_000


class FlightRecorder:
    """Records a node's events; a ``Listener``.

    Args:
        cfg: See Config; not ``off``.
        log: Encodes the events as messages.
        now_s: The node's clock.
        health: Returns the node's present health, name → number or text; recorded once a second.

    Raises:
        ConfigError: The folder cannot be written, or its disk is nearly full.
    """

    class Config(ConfigModel):
        """What is recorded, and where.

        Args:
            mode: ``full`` writes continuously; ``ring`` keeps the last ``ring_s`` in memory and
                writes them when a fault latches or on the request ``record``; ``off`` does neither.
            folder: Folder of the recordings, one folder each.
            ring_s: Time span that a ring keeps.
            post_trigger_s: Time span after the trigger that a ring also writes.
            ring_mb: Largest size of a ring.
            backlog_mb: Largest size of the backlog; items beyond it are dropped.
            min_free_mb: Free space that is left on the disk.
            extra_topics: Topic → interface, for recorded topics that the policy does not need.
        """

        mode: Literal["off", "ring", "full"] = "off"
        folder: str = "recordings"
        ring_s: float = Field(default=30.0, gt=0.0)
        post_trigger_s: float = Field(default=5.0, ge=0.0)
        ring_mb: int = Field(default=256, ge=1)
        backlog_mb: int = Field(default=64, ge=1)
        min_free_mb: int = Field(default=500, ge=0)
        extra_topics: dict[RequiredTopicName, MsgType] = Field(
            default_factory=lambda: {"/sim/episode": MsgType.TEXT}
        )

        def with_folder(self, folder: str) -> FlightRecorder.Config:
            """Return the config with that folder; mode ``off`` becomes ``full``."""
            mode = "full" if self.mode == "off" else self.mode
            return self.model_copy(update={"folder": folder, "mode": mode})

    def __init__(
        self,
        cfg: Config,
        log: MessageEncoder,
        now_s: Callable[[], float],
        health: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self.cfg, self._now_s, self._log = cfg, now_s, log
        self._health, self._health_s = health, float("-inf")
        self.folder, self.bags = Path(cfg.folder), list[Path]()
        self._backlog: Backlog[Item] = Backlog(cfg.backlog_mb * _MB)
        self._problem, self._lost, self._saves, self._open = "", 0, 0, True
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._demand_room()
            tempfile.TemporaryFile(dir=self.folder).close()
            self._sink: Sink | None = self._make_sink()
        except OSError as error:
            raise ConfigError(
                f"record.folder: cannot be recorded to: {error.strerror or error}",
                where=self.folder,
            ) from None
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
        self._thread.start()

    def on_message(self, topic: str, kind: MsgType, reading: Reading) -> None:
        """Record a reading."""
        if reading.wire:
            reading = Reading({}, (), reading.stamp_s, reading.wire)
        self._put(MessageItem(topic, kind, reading))

    def on_tick(self, tick: Tick) -> None:
        """Record a control period, and the health once a second."""
        self._put(tick)
        if tick.began_s - self._health_s >= _HEALTH_S:
            self._health_s = tick.began_s
            self._put(HealthItem(tick.began_s, self._health()))

    def on_event(self, event: str, what: str) -> None:
        """Record another event."""
        self._put(EventItem(self._now_s(), event, what))

    def save(self) -> None:
        """Save the content of a ring; from any thread."""
        self._saves += 1

    def problems(self) -> list[str]:
        """Return the number of dropped items, and why recording stopped."""
        dropped = self._backlog.dropped + self._lost
        found = [f"recording stopped: {self._problem}"] if self._problem else []
        return found + ([f"{dropped} not recorded"] if dropped else [])

    def close(self) -> None:
        """Write the remaining items and stop."""
        self._open = False
        self._thread.join(timeout=_CLOSE_S)
        if self._thread.is_alive():
            self._problem = self._problem or f"the disk did not take it in {_CLOSE_S:g} s"

    def _put(self, item: Item) -> None:
        self._backlog.put(item, size_of(item))

    def _make_sink(self) -> Sink:
        from robo_rl_sim2real.recording.sinks import DirectSink, RingSink

        if self.cfg.mode == "full":
            return DirectSink(self._log, self._name)
        cfg = self.cfg
        return RingSink(self._log, self._name, cfg.ring_s, cfg.post_trigger_s, cfg.ring_mb * _MB)

    def _work(self) -> None:
        """Write items until the recorder is closed and the backlog is empty."""
        flushed_s, saved = time.monotonic(), 0
        while True:
            last = not self._open
            self._guarded(self._drain)
            if self._saves > saved:
                saved = self._saves
                self._guarded(lambda sink: sink.save())
            if time.monotonic() - flushed_s >= _FLUSH_S:
                flushed_s = time.monotonic()
                self._guarded(self._flush)
            if last:
                break
            time.sleep(_POLL_S)
        self._guarded(lambda sink: sink.close())

    def _guarded(self, work: Callable[[Any], None]) -> None:
        """Run ``work``; an error ends the recording but not the node."""
        if self._sink is None:
            while self._backlog.pop() is not None:
                self._lost += 1
            return
        try:
            work(self._sink)
        except Exception as error:  # the robot continues without its recorder
            reason = error.strerror if isinstance(error, OSError) else None
            self._problem = reason or f"{type(error).__name__}: {error}"
            self._sink.discard()
            self._sink = None

    def _drain(self, sink: Sink) -> None:
        while (item := self._backlog.pop()) is not None:
            sink.write(item)
            time.sleep(0)  # yields the interpreter to the control loop

    def _flush(self, sink: Sink) -> None:
        sink.flush()
        self._demand_room()

    def _demand_room(self) -> None:
        free = shutil.disk_usage(self.folder).free
        if free < self.cfg.min_free_mb * _MB:
            raise OSError(0, f"{free // _MB} MB are free, {self.cfg.min_free_mb} are to stay so")

    def _name(self) -> Path:
        """Return the path of the next bag."""
        stamp, number = self._stamp(), 0
        while (path := self.folder / (f"{stamp}-{number}" if number else stamp)).exists():
            number += 1
        self.bags.append(path)
        return path

    @staticmethod
    def _stamp() -> str:
        return time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
