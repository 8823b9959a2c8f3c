"""A process that runs and says nothing: who obeys velocities stands, and then it hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from robo_rl.config.registry import load
from robo_rl_sim2real.control.commands.braking import Motion
from robo_rl_sim2real.control.commands.publishers import CommandPublishers
from robo_rl_sim2real.control.commands.topic import CommandTopic
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.base import COMMAND
from robo_rl_sim2real.transport.loopback import Bus, Loopback
from robo_rl_sim2real.watchdog.assessment import WatchdogAction
from robo_rl_sim2real.watchdog.heartbeat import HeartbeatMemory, Phase
from robo_rl_sim2real.watchdog.job import WatchdogJob
from robo_rl_sim2real.watchdog.loop import StopPublishers, run_watchdog
from robo_rl_sim2real.watchdog.process import ProcessHandle

if not hasattr(os, "pidfd_open"):
    pytest.skip("the watchdog needs Linux", allow_module_level=True)

DT_S, ROBOT = 0.05, load("robots", "panda")
HAND = EePoseAxes.of(ROBOT)
JOINTS = len(HAND.names) + 1
OUTLETS = (
    CommandTopic("/twist", MsgType.TWIST, HAND.names, tuple(range(JOINTS - 1)), DT_S, HAND),
    CommandTopic("/grip", MsgType.ARRAY, ("grip",), (JOINTS - 1,), DT_S),
)


def orders(pid: int) -> WatchdogJob:
    names: list[str] = ["low", "high", "velocity", "acceleration", "jerk"]
    limits = dict.fromkeys(names, (1.0,) * JOINTS)
    return WatchdogJob(
        pid=pid,
        transport={"name": "dds"},  # type: ignore[arg-type]
        state="/state",
        command_topics=OUTLETS,
        limits=limits,
        dt_s=DT_S,
        command_timeout_s=0.05,
        hang_timeout_s=0.4,
        final_hold_s=0.0,
    )


def test_velocities_are_told_zero_while_it_is_late_positions_nothing_and_it_hangs_in_the_end():
    twists, grips, bus = list[Reading](), list[Reading](), Bus(time.monotonic)
    robot, ours = Loopback(bus, "robot"), Loopback(bus, "watchdog")
    robot.subscribe("/twist", MsgType.TWIST, twists.append, COMMAND)
    robot.subscribe("/grip", MsgType.ARRAY, grips.append, COMMAND)
    commands = CommandPublishers(OUTLETS, ours)
    mouth = StopPublishers(
        commands, commands.with_kind(MsgType.TWIST), ours.create_publisher("/state", MsgType.TEXT)
    )
    file = os.memfd_create("beats")
    os.ftruncate(file, HeartbeatMemory.size(JOINTS))
    block = HeartbeatMemory.map_file(file, JOINTS)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        began_s = time.monotonic()
        block.policy.write(began_s, Phase.SENDING, Motion(*np.full((3, JOINTS), 0.1)))
        found = run_watchdog(block, ProcessHandle(child.pid), mouth, orders(child.pid), Clock())
        took_s = time.monotonic() - began_s
    finally:
        child.kill()
        child.wait()
        os.close(file)
    assert found.action is WatchdogAction.STOP
    assert "hangs: its last command is" in found.reason
    assert took_s > 0.4
    assert 1 <= len(twists) <= took_s / DT_S
    assert all((twist.fields["linear"] == 0.0).all() for twist in twists)
    np.testing.assert_allclose([twist.fields["angular"] for twist in twists], 0.0, atol=1e-12)
    assert grips == []
