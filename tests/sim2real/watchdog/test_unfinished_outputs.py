"""What a killed policy process was to write is written, or it is said why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("rosbags", reason="pip install 'robo-rl[dds]'")

from robo_rl_sim2real.control.health import Health
from robo_rl_sim2real.messages.rosbags_types import type_store
from robo_rl_sim2real.recording.bag_writer import BagWriter
from robo_rl_sim2real.recording.message_encoder import ClockOrigin, MessageEncoder
from robo_rl_sim2real.recording.recovery import is_truncated
from robo_rl_sim2real.watchdog.heartbeat import NO_MOTION, Heartbeat, Phase
from robo_rl_sim2real.watchdog.job import UnfinishedOutputs
from robo_rl_sim2real.watchdog.unfinished_outputs import finish_outputs

BEAT = Heartbeat(412, 100.0, Phase.SENDING, NO_MOTION)


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    bag = BagWriter(tmp_path / "torn", type_store("jazzy"))
    bag.write(MessageEncoder({"task": "lift"}, ("a",), ClockOrigin(0.0, 1)).about())
    bag.flush()
    bag.discard()
    return bag.path


def test_health_says_what_happened_and_the_recording_is_whole(torn: Path, tmp_path: Path):
    health = tmp_path / "health.json"
    said = finish_outputs(
        UnfinishedOutputs(health=str(health), recordings=str(torn.parent)), "it died", BEAT
    )
    whole = torn.with_name("torn-mended")
    assert not is_truncated(whole)
    found = json.loads(health.read_text())
    assert found.keys() >= {*Health._fields, "ended", "recorded"}
    assert (found["state"], found["problem"], found["ended"]) == ("faulted", "it died", "killed")
    assert (found["ticks"], found["missed"], found["recorded"]) == (412, None, [str(whole)])
    assert said == [f"recorded: {whole}", f"its health: {health}"]


def test_what_cannot_be_written_is_said_and_the_rest_is_done(torn: Path, tmp_path: Path):
    torn.with_name("torn-mended").mkdir()
    health = tmp_path / "nowhere" / "health.json"
    mended, unwritten = finish_outputs(
        UnfinishedOutputs(health=str(health), recordings=str(torn.parent)), "died", BEAT
    )
    assert "is there already" in mended
    assert unwritten == "its health was not written: No such file or directory"
