"""Where there is no ROS 2, its transport says so in a line; its environment is left as it was."""

from __future__ import annotations

import importlib.util
import os
from types import SimpleNamespace

import pytest

from robo_rl.core.errors import DeviceError
from robo_rl_sim2real.transport.ros2.installation import configure_discovery
from robo_rl_sim2real.transport.ros2.transport import Ros2

RANGE, ONLY = "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY"


@pytest.mark.skipif(importlib.util.find_spec("rclpy") is not None, reason="rclpy is here")
def test_without_rclpy_it_says_what_to_do():
    with pytest.raises(DeviceError, match=r"needs ROS 2's own rclpy.*setup\.bash.*dds"):
        Ros2(Ros2.Config(), "node")


@pytest.mark.parametrize(("later", "name"), [(True, RANGE), (False, ONLY)])
def test_it_stays_on_this_machine_in_the_words_of_its_distribution(
    monkeypatch: pytest.MonkeyPatch, later: bool, name: str
):
    monkeypatch.delenv(ONLY, raising=False)
    monkeypatch.setenv(RANGE, "SUBNET")
    ros = SimpleNamespace(event_handler=None) if later else SimpleNamespace()
    before = dict(os.environ)
    with configure_discovery(ros, network=False):
        changed = {key for key in (RANGE, ONLY) if os.environ.get(key) != before.get(key)}
        assert changed == {name}
    assert dict(os.environ) == before
    with configure_discovery(ros, network=True):
        assert dict(os.environ) == before
