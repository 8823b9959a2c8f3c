"""Each topic has its function, errors of which are reported by topic, and the end is orderly."""

from __future__ import annotations

import threading
import time

import numpy as np

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.perception.latest_worker import LatestWorker


def reading(stamp_s: float) -> Reading:
    return Reading({"data": np.zeros(1)}, (), stamp_s)


def test_what_waits_at_the_end_is_still_processed_and_errors_come_by_topic():
    done, told = list[tuple[str, float]](), dict[str, str]()

    def refuse(_: Reading) -> None:
        raise SpecError("does not fit")

    def crash(_: Reading) -> None:
        raise KeyError("x")

    works = {"/a": lambda each: done.append(("/a", each.stamp_s)), "/b": refuse, "/c": crash}
    worker = LatestWorker(works, told.__setitem__, "test")
    assert "/a" in worker
    assert "/d" not in worker
    for topic in works:
        worker.put(topic, reading(1.0))
    worker.close()
    end_s = time.monotonic() + 10.0
    while worker.is_busy and time.monotonic() < end_s:
        time.sleep(0.001)
    assert done == [("/a", 1.0)]
    assert "does not fit" in told["/b"]
    assert told["/c"] == "KeyError: 'x'"


def test_a_topic_that_is_busy_keeps_only_the_latest():
    may, done = threading.Event(), list[float]()

    def work(each: Reading) -> None:
        assert may.wait(10.0)
        done.append(each.stamp_s)

    worker = LatestWorker({"/a": work}, lambda *_: None, "test")
    for number in range(50):
        worker.put("/a", reading(float(number)))
    may.set()
    end_s = time.monotonic() + 10.0
    while (not done or done[-1] != 49.0) and time.monotonic() < end_s:
        time.sleep(0.001)
    worker.close()
    assert done[-1] == 49.0
    assert len(done) <= 2
