"""Decodes images in a thread of its own, and passes all other readings on at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from robo_rl_sim2real.messages.readings import Inbox, Reading
from robo_rl_sim2real.perception.cameras import CameraPreprocessor
from robo_rl_sim2real.perception.latest_worker import LatestWorker


class ImageWorker:
    """Passes readings from a transport to an inbox; only images go through the thread.

    Args:
        eyes: Topic → its preprocessor.
        inbox: Destination of the readings, and of the reasons why images are unusable.
    """

    def __init__(self, eyes: Mapping[str, CameraPreprocessor], inbox: Inbox) -> None:
        self._inbox = inbox
        works = defaultdict[str, list[Callable[[Reading], None]]](list)
        for topic, eye in eyes.items():
            works[topic].append(self._shows(eye))
            for calibration in eye.calibrations:
                works[calibration.expected.topic].append(calibration.on_camera_info)
        each = {topic: _in_turn(of_topic) for topic, of_topic in works.items()}
        self._worker = LatestWorker(each, inbox.report_problem, "darkroom")

    def put(self, topic: str, reading: Reading) -> None:
        """Process a reading of a topic."""
        to = self._worker if topic in self._worker else self._inbox
        to.put(topic, reading)

    def close(self) -> None:
        """Stop the thread after the waiting images."""
        self._worker.close()

    def _shows(self, eye: CameraPreprocessor) -> Callable[[Reading], None]:
        return lambda reading: self._inbox.put(eye.topic, eye.process(reading))


def _in_turn(works: list[Callable[[Reading], None]]) -> Callable[[Reading], None]:
    def run(reading: Reading) -> None:
        for work in works:
            work(reading)

    return run
