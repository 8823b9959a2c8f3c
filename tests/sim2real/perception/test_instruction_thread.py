"""Instructions take effect once they are encoded; one that does not fit changes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from robo_rl.core.errors import ConfigError
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Inbox, Reading
from robo_rl_sim2real.perception.instruction_thread import InstructionWorker

TOPIC = "/words"


def until(done: Callable[[], object]) -> None:
    end_s = time.monotonic() + 10.0
    while not done() and time.monotonic() < end_s:
        time.sleep(0.001)
    assert done()


class Listening:
    """A worker, and what it passes on."""

    def __init__(self) -> None:
        self.inbox, self.may = Inbox(), threading.Event()
        self.recorded, self.refused = list[str](), list[str]()
        self.worker = InstructionWorker(
            [TOPIC], self.encode, self.inbox, self.record, self.refused.append
        )

    def encode(self, text: str) -> None:
        assert self.may.wait(10.0)
        if not text.strip():
            raise ConfigError("no words")

    def record(self, topic: str, kind: MsgType, reading: Reading) -> None:
        assert (topic, kind) == (TOPIC, MsgType.TEXT)
        self.recorded.append(str(reading.fields["data"]))

    def say(self, text: str) -> None:
        self.worker.put(TOPIC, Reading({"data": np.asarray(text)}, (), time.monotonic()))

    @property
    def in_effect(self) -> str:
        found = self.inbox.get(TOPIC)
        return "" if found is None else str(found.fields["data"])


@pytest.fixture
def listening() -> Iterator[Listening]:
    made = Listening()
    yield made
    made.may.set()
    made.worker.close()


def test_words_are_recorded_at_once_and_in_effect_once_they_are_encoded(listening: Listening):
    listening.say("lift it")
    assert listening.recorded == ["lift it"]
    assert listening.worker.is_busy
    assert listening.in_effect == ""
    listening.may.set()
    until(lambda: listening.in_effect == "lift it")
    until(lambda: not listening.worker.is_busy)
    assert listening.refused == []


def test_words_that_cannot_be_encoded_are_refused_and_the_last_stay(listening: Listening):
    listening.may.set()
    listening.say("lift it")
    until(lambda: listening.in_effect == "lift it")
    listening.say(" ")
    until(lambda: listening.refused)
    assert "no words" in listening.refused[0]
    assert listening.in_effect == "lift it"


def test_a_text_that_is_far_too_long_is_refused_unheard(listening: Listening):
    listening.say("x" * 5000)
    assert "too long" in listening.refused[0]
    assert listening.recorded == []
    assert not listening.worker.is_busy
