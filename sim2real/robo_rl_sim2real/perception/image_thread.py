"""Decodes images in a thread of its own, beside the transport and the control loop.

Only the newest image of a topic counts. Images that arrive during processing are skipped if a newer
one follows.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.messages.readings import Inbox, Reading
from robo_rl_sim2real.perception.cameras import CameraPreprocessor


class ImageWorker:
    """Passes readings from a transport to an inbox; only images go through the thread.

    Args:
        eyes: Topic → its preprocessor.
        inbox: Destination of the readings.
    """

    def __init__(self, eyes: Mapping[str, CameraPreprocessor], inbox: Inbox) -> None:
        self._inbox, self._works = inbox, defaultdict[str, list[Callable[[Reading], None]]](list)
        for topic, eye in eyes.items():
            self._works[topic].append(self._shows(eye))
            if eye.lens is not None:
                self._works[eye.lens.topic].append(eye.on_camera_info)
        self._waiting, self._changed = dict[str, Reading](), threading.Condition()
        self._open = bool(eyes)
        self._thread = threading.Thread(target=self._work, name="darkroom", daemon=True)
        if eyes:
            self._thread.start()

    def put(self, topic: str, reading: Reading) -> None:
        """Process a reading of a topic."""
        if topic not in self._works:
            self._inbox.put(topic, reading)
            return
        with self._changed:
            self._waiting[topic] = reading
            self._changed.notify()

    def close(self) -> None:
        """Stop the thread after the waiting images."""
        with self._changed:
            self._open = False
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)

    def _shows(self, eye: CameraPreprocessor) -> Callable[[Reading], None]:
        return lambda reading: self._inbox.put(eye.topic, eye.process(reading))

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or not self._open)
                waiting, self._waiting = self._waiting, {}
            if not waiting:
                return
            for topic, reading in waiting.items():
                self._make(topic, reading)

    def _make(self, topic: str, reading: Reading) -> None:
        """Process a reading; an error is reported to the inbox, and the thread continues."""
        try:
            for work in self._works[topic]:
                work(reading)
        except RoboRlError as error:
            self._inbox.report_problem(topic, str(error))
        except Exception as error:
            self._inbox.report_problem(topic, f"{type(error).__name__}: {error}")
