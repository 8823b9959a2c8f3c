"""Processes the latest message of each topic in a thread, beside transport and control loop.

What takes long, such as decoding an image or encoding an instruction, would delay other topics in
the transport's thread, the emergency stop among them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.messages.readings import Reading


class LatestWorker:
    """Runs one function per topic on its latest message; earlier ones that wait are skipped.

    Args:
        works: Topic → what processes its messages; without topics there is no thread.
        report: Receives the topic and the text of an error, after which the thread continues.
        name: Name of the thread.
    """

    def __init__(
        self,
        works: Mapping[str, Callable[[Reading], None]],
        report: Callable[[str, str], None],
        name: str,
    ) -> None:
        self._works, self._report = dict(works), report
        self._waiting, self._changed = dict[str, Reading](), threading.Condition()
        self._is_processing = False
        self._open = bool(self._works)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        if self._works:
            self._thread.start()

    def __contains__(self, topic: str) -> bool:
        """Return whether the messages of a topic are processed here."""
        return topic in self._works

    @property
    def is_busy(self) -> bool:
        """Whether a message waits or is being processed."""
        with self._changed:
            return bool(self._waiting) or self._is_processing

    def put(self, topic: str, reading: Reading) -> None:
        """Process a message of a topic, in place of one that waits. Does not block."""
        with self._changed:
            self._waiting[topic] = reading
            self._changed.notify()

    def close(self) -> None:
        """Stop the thread after the waiting messages."""
        with self._changed:
            self._open = False
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or not self._open)
                waiting, self._waiting = self._waiting, {}
                self._is_processing = bool(waiting)
            if not waiting:
                return
            for topic, reading in waiting.items():
                self._process(topic, reading)
            self._is_processing = False

    def _process(self, topic: str, reading: Reading) -> None:
        try:
            self._works[topic](reading)
        except RoboRlError as error:
            self._report(topic, str(error))
        except Exception as error:  # one bad message must not stop the thread
            self._report(topic, f"{type(error).__name__}: {error}")
