"""Instructions are encoded beside the transport and the loop, and an unfit one changes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from small_bundles import make_bundle, with_instruction
from small_flights import ROBOT, Flight

from robo_rl.language.byte_text import ByteText
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.base import LATCHED
from robo_rl_sim2real.transport.loopback import Loopback

TOPIC = "/policy/instruction"


class World(Flight):
    """A flight whose policy is told an instruction; the encoder waits before ``slow`` texts."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may, self.encoded = threading.Event(), list[tuple[str, str]]()
        encode = ByteText.encode

        def slowly(encoder: ByteText, sentences: list[str]):
            self.encoded.append((threading.current_thread().name, sentences[0]))
            if sentences[0].startswith("slow"):
                assert self.may.wait(10.0)
            return encode(encoder, sentences)

        monkeypatch.setattr(ByteText, "encode", slowly)
        bundle = with_instruction(path / "reads", make_bundle(path / "bundle", ROBOT))
        source = {"topic": TOPIC, "msg_type": MsgType.TEXT.value}
        super().__init__(path, bundle=bundle, observe={"instruction": source})
        self.words = Loopback(self.bus).create_publisher(TOPIC, MsgType.TEXT, LATCHED)

    @property
    def in_effect(self) -> str:
        """The words that the policy follows."""
        found = self.node.inbox.get(TOPIC)
        return "" if found is None else str(found.fields["data"])

    def instruct(self, text: str) -> None:
        self.words.send(Reading({"data": np.asarray(text)}, (), self.now_s))

    def state_after(self, ticks: int) -> State:
        self.run(ticks)
        return self.node.runtime.state


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path, monkeypatch)
    yield made
    made.may.set()
    made.node.close()


def until(done: Callable[[], object]) -> None:
    end_s = time.monotonic() + 10.0
    while not done() and time.monotonic() < end_s:
        time.sleep(0.001)
    assert done()


def test_a_slow_encoder_delays_neither_the_emergency_stop_nor_the_loop(world: World):
    world.instruct("lift it")
    until(lambda: world.in_effect == "lift it")
    world.node.request("activate")
    assert world.state_after(20) is State.RUNNING
    world.instruct("slow lift")
    until(lambda: ("instructions", "slow lift") in world.encoded)
    assert world.state_after(10) is State.RUNNING  # the last instruction stays in effect meanwhile
    assert world.in_effect == "lift it"
    world.press(True)
    assert world.node.runtime.life.stopped
    world.may.set()
    until(lambda: world.in_effect == "slow lift")
    world.run(5)
    assert {thread for thread, _ in world.encoded} == {"instructions"}
    assert len(world.encoded) == 2


def test_a_start_waits_for_the_words_that_were_published_before_it(world: World):
    world.instruct("lift it")
    until(lambda: world.in_effect == "lift it")
    world.instruct("slow press")
    world.node.request("activate")
    assert world.state_after(5) is State.INACTIVE
    assert "cannot activate: the instruction is being encoded" in world.node.health.problem
    world.may.set()
    until(lambda: not world.node.instructions.is_busy)
    world.node.request("activate")
    assert world.state_after(20) is State.RUNNING
    assert world.in_effect == "slow press"


def test_of_instructions_that_wait_the_latest_is_encoded(world: World):
    world.instruct("slow lift")
    until(lambda: world.encoded)
    for number in range(100):
        world.instruct(f"press {number}")
    world.may.set()
    until(lambda: world.in_effect == "press 99")
    assert [text for _, text in world.encoded] == ["slow lift", "press 99"]


@pytest.mark.parametrize("text", ["lift it as high as you can", " ", "x" * 5000])
def test_an_instruction_that_does_not_fit_is_refused_and_the_last_stays(world: World, text: str):
    world.instruct("lift it")
    until(lambda: world.in_effect == "lift it")
    world.instruct(text)
    until(lambda: world.node.health.refused == 1)
    assert world.in_effect == "lift it"
    world.instruct("press it")
    until(lambda: world.in_effect == "press it")


def test_an_encoder_that_breaks_is_told_and_the_next_instruction_is_heard(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as broken:
        broken.setattr(ByteText, "encode", lambda *_: 1 / 0)
        world.instruct("lift it")
        until(lambda: "ZeroDivisionError" in world.node.health.problem)
    world.instruct("press it")
    until(lambda: world.in_effect == "press it")
