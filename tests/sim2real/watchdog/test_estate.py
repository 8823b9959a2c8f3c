"""What a killed policy process was to write is written, or it is said why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("rosbags", reason="pip install 'robo-rl[dds]'")

from robo_rl_sim2real.control.health import Health
from robo_rl_sim2real.messages.rosbags_types import store_of
from robo_rl_sim2real.recording.bag import Bag
from robo_rl_sim2real.recording.log import Log, Origin
from robo_rl_sim2real.recording.torn import is_torn
from robo_rl_sim2real.watchdog.block import NO_MOTION, Beat, Phase
from robo_rl_sim2real.watchdog.estate import settled
from robo_rl_sim2real.watchdog.orders import Estate

BEAT = Beat(412, 100.0, Phase.SENDING, NO_MOTION)


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    bag = Bag(tmp_path / "torn", store_of("jazzy"))
    bag.write(Log({"task": "lift"}, ("a",), Origin(0.0, 1), dict).about())
    bag.flush()
    bag.abandon()
    return bag.path


def test_health_says_what_happened_and_the_recording_is_whole(torn: Path, tmp_path: Path):
    health = tmp_path / "health.json"
    said = settled(Estate(health=str(health), recordings=str(torn.parent)), "it died", BEAT)
    whole = torn.with_name("torn-mended")
    assert not is_torn(whole)
    found = json.loads(health.read_text())
    assert found.keys() >= {*Health._fields, "ended", "recorded"}
    assert (found["state"], found["problem"], found["ended"]) == ("faulted", "it died", "killed")
    assert (found["ticks"], found["missed"], found["recorded"]) == (412, None, [str(whole)])
    assert said == [f"recorded: {whole}", f"its health: {health}"]


def test_what_cannot_be_written_is_said_and_the_rest_is_done(torn: Path, tmp_path: Path):
    torn.with_name("torn-mended").mkdir()
    health = tmp_path / "nowhere" / "health.json"
    mended, unwritten = settled(
        Estate(health=str(health), recordings=str(torn.parent)), "died", BEAT
    )
    assert "is there already" in mended
    assert unwritten == "its health was not written: No such file or directory"
