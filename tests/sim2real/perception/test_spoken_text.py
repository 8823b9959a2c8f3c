"""A policy that reads an instruction: the latest words on a topic, or those of the settings."""

from __future__ import annotations

import numpy as np
import pytest
from small_robot import Bench, contract

from robo_rl.core.errors import ConfigError, RoboRlError
from robo_rl.core.spec import TOKEN, ObsSpec, TensorSpec
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Inbox, Reading
from robo_rl_sim2real.perception.observer import Observer, Source
from robo_rl_sim2real.perception.spoken_text import SpokenText

TOPIC = "/policy/instruction"
ENCODER = {"name": "bytes", "max_bytes": 16}
TEXT = TensorSpec(shape=(16,), dtype="int64", unit=TOKEN)


def told(**fields) -> Source:
    return Source(msg_type=MsgType.TEXT, **{"topic": TOPIC, **fields})


def observer(source: Source) -> Observer:
    own = contract()
    spec = ObsSpec(items={**own.obs.items, "instruction": TEXT})
    agreed = own.model_copy(update={"obs": spec, "text_encoder": ENCODER})
    joints = Source(topic="/joints", field="position")
    return Observer(agreed, {"pos": joints, "instruction": source})


def inbox(*said: str) -> Inbox:
    box = Inbox()
    names = contract().act.names
    box.put("/joints", Reading({"position": np.zeros(len(names))}, names, 1.0))
    for number, text in enumerate(said):
        box.put(TOPIC, Reading({"data": np.asarray(text)}, (), 2.0 + number))
    return box


def words(frame) -> str:
    item = frame.items["instruction"]
    return bytes(item[item >= 0].tolist()).decode()


def test_the_latest_words_count_and_their_age_does_not():
    eye = observer(told())
    frame = eye.read_frame(inbox("lift it", "press it"))
    assert frame is not None
    assert words(frame) == "press it"
    assert frame.stamp_s == 1.0  # that of the joints
    assert eye.topics == {"/joints": MsgType.JOINT_STATES}
    assert eye.text_topics == {TOPIC: MsgType.TEXT}


def test_words_of_the_settings_hold_until_a_topic_gives_others():
    eye = observer(told(text="wait"))
    assert words(eye.read_frame(inbox())) == "wait"
    assert words(eye.read_frame(inbox("lift it"))) == "lift it"
    assert words(observer(told(topic="", text="wait")).read_frame(inbox("lift it"))) == "wait"


def test_other_words_begin_a_history_of_their_own():
    own = contract(obs_horizon=2)
    spec = ObsSpec(items={**own.obs.items, "instruction": TEXT})
    agreed = own.model_copy(update={"obs": spec, "text_encoder": ENCODER})
    joints = Source(topic="/joints", field="position")
    eye, box = Observer(agreed, {"pos": joints, "instruction": told()}), inbox("lift it")
    for tick, (text, expected) in enumerate([("", "lift it"), ("press", "press"), ("", "press")]):
        if text:
            box.put(TOPIC, Reading({"data": np.asarray(text)}, (), 9.0))
        frame = eye.read_frame(box)
        assert frame is not None
        assert frame.instruction == expected
        seen = eye.observation(frame, tick)["instruction"][0]
        assert np.array_equal(seen[0], seen[1])


def test_without_words_the_item_is_padding_and_it_says_why():
    """The joints are still measured, for homing and teleoperation."""
    eye = observer(told())
    frame = eye.read_frame(inbox())
    assert frame is not None
    assert (frame.items["instruction"] == -1).all()
    assert TOPIC in eye.missing_instruction(inbox())
    assert not eye.missing_instruction(inbox("lift it"))


def test_words_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="too long"):
        observer(told(text="lift it as high as you can"))
    with pytest.raises(ConfigError, match="empty"):
        observer(told()).check_words(" ")


def test_words_come_as_a_text_and_nothing_else_does():
    with pytest.raises(ValueError, match="text: needs msg_type"):
        Source(topic="/joints", text="lift it")
    with pytest.raises(ConfigError, match="for 'instruction'"):
        observer(Source(topic=TOPIC, field="position"))


def test_a_robot_without_an_instruction_does_not_begin():
    bench = Bench()
    parts = bench.runtime.parts._replace(observer=observer(told()))
    bench.runtime.parts = parts
    with pytest.raises(RoboRlError, match="cannot activate: no instruction"):
        bench.runtime.activate(inbox(), 0)


def test_the_words_in_effect_stay_encoded_while_others_are():
    class Counted:
        spec, asked = TEXT, list[str]()

        def encode(self, sentences):
            self.asked.extend(sentences)
            return np.zeros((len(sentences), 16), np.int64)

    words = SpokenText(Counted())
    for text in ("lift", "press", "lift", "press", "lift"):
        words.encode(text)
    assert Counted.asked == ["lift", "press"]
