"""Pictures are made ready apart, the newest first, and a bad one does no harm."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from robo_rl.core.spec import TensorSpec
from robo_rl_sim2real.messages.readings import Inbox, Reading
from robo_rl_sim2real.perception.camera_guard import CameraGuard
from robo_rl_sim2real.perception.cameras import CameraPreprocessor, ImageItem
from robo_rl_sim2real.perception.image_thread import ImageWorker

RNG = np.random.default_rng(0)
VIEW = ImageItem("rgb", TensorSpec(shape=(4, 4, 3), dtype="uint8"), None)


class SlowEye(CameraPreprocessor):
    """Waits before it looks until it may."""

    may = threading.Event()

    def process(self, reading: Reading) -> Reading:
        assert self.may.wait(10.0)
        return super().process(reading)


def picture(stamp_s: float, channels: int = 3) -> Reading:
    return Reading({"image": RNG.integers(0, 256, (8, 8, channels), np.uint8)}, (), stamp_s)


def until(done: Callable[[], object]) -> None:
    end_s = time.monotonic() + 10.0
    while not done() and time.monotonic() < end_s:
        time.sleep(0.001)
    assert done()


@pytest.fixture
def room() -> Iterator[ImageWorker]:
    guard = CameraGuard(CameraGuard.Config())
    made = ImageWorker({"/camera": CameraPreprocessor("/camera", (VIEW,), guard)}, Inbox())
    yield made
    made.close()


def test_a_picture_comes_out_ready_and_as_old_as_it_was(room):
    room.put("/camera", picture(5.0))
    until(lambda: room._inbox.get("/camera"))
    found = room._inbox.get("/camera")
    assert found.fields["rgb"].shape == (4, 4, 3)
    assert found.stamp_s == 5.0


def test_what_is_no_picture_passes_at_once(room):
    reading = Reading({"position": np.zeros(2)}, ("a", "b"), 1.0)
    room.put("/joint_states", reading)
    assert room._inbox.get("/joint_states") is reading


def test_a_bad_picture_is_told_the_last_good_one_stays_and_the_next_heals(room):
    room.put("/camera", picture(1.0))
    until(lambda: room._inbox.get("/camera"))
    room.put("/camera", picture(2.0, channels=1))
    until(lambda: room._inbox.problem(["/camera"]))
    assert room._inbox.problem(["/camera"]).startswith("/camera: obs 'rgb': channels of an image")
    assert room._inbox.get("/camera").stamp_s == 1.0
    room.put("/camera", Reading({"image": np.zeros(3)}, (), 3.0))  # not even an image
    until(lambda: "IndexError" in room._inbox.problem(["/camera"]))
    room.put("/camera", picture(4.0))
    until(lambda: room._inbox.get("/camera").stamp_s == 4.0)
    assert room._inbox.problem(["/camera"]) == ""


def test_who_hands_a_picture_over_does_not_wait_and_only_the_newest_is_made():
    SlowEye.may.clear()
    eye, inbox = SlowEye("/camera", (VIEW,), CameraGuard(CameraGuard.Config())), Inbox()
    room, made = ImageWorker({"/camera": eye}, inbox), list[float]()
    put = inbox.put
    inbox.put = lambda topic, reading: (made.append(reading.stamp_s), put(topic, reading))[1]
    for number in range(100):
        room.put("/camera", picture(float(number)))
    assert made == []
    SlowEye.may.set()
    until(lambda: made and made[-1] == 99.0)
    assert len(made) <= 2
    room.close()


def test_without_a_camera_there_is_no_thread():
    before = set(threading.enumerate())
    room = ImageWorker({}, Inbox())
    assert set(threading.enumerate()) <= before
    room.close()
