"""A process that runs and says nothing: who obeys velocities stands, and then it hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from robo_rl.config.registry import load
from robo_rl_sim2real.control.braking import Motion
from robo_rl_sim2real.control.command_publishers import Commands
from robo_rl_sim2real.control.command_topic import Outlet
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.messages.ee_pose import HandPoses
from robo_rl_sim2real.messages.kinds import Kind
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.base import COMMAND
from robo_rl_sim2real.transport.loopback import Bus, Loopback
from robo_rl_sim2real.watchdog.block import Block, Phase
from robo_rl_sim2real.watchdog.judge import Verdict
from robo_rl_sim2real.watchdog.orders import Orders
from robo_rl_sim2real.watchdog.process import Process
from robo_rl_sim2real.watchdog.watch import Mouth, watch

if not hasattr(os, "pidfd_open"):
    pytest.skip("the watchdog needs Linux", allow_module_level=True)

DT_S, ROBOT = 0.05, load("robots", "panda")
HAND = HandPoses.of(ROBOT)
JOINTS = len(HAND.names) + 1
OUTLETS = (
    Outlet("/twist", Kind.TWIST, HAND.names, tuple(range(JOINTS - 1)), DT_S, HAND),
    Outlet("/grip", Kind.ARRAY, ("grip",), (JOINTS - 1,), DT_S),
)


def orders(pid: int) -> Orders:
    names: list[str] = ["low", "high", "velocity", "acceleration", "jerk"]
    limits = dict.fromkeys(names, (1.0,) * JOINTS)
    return Orders(
        pid=pid,
        transport={"name": "dds"},  # type: ignore[arg-type]
        state="/state",
        outlets=OUTLETS,
        limits=limits,
        dt_s=DT_S,
        grace_s=0.05,
        hang_s=0.4,
        hold_s=0.0,
    )


def test_velocities_are_told_zero_while_it_is_late_positions_nothing_and_it_hangs_in_the_end():
    twists, grips, bus = list[Reading](), list[Reading](), Bus(time.monotonic)
    robot, ours = Loopback(bus, "robot"), Loopback(bus, "watchdog")
    robot.subscribe("/twist", Kind.TWIST, twists.append, COMMAND)
    robot.subscribe("/grip", Kind.ARRAY, grips.append, COMMAND)
    commands = Commands(OUTLETS, ours)
    mouth = Mouth(commands, commands.only(Kind.TWIST), ours.advertise("/state", Kind.TEXT))
    file = os.memfd_create("beats")
    os.ftruncate(file, Block.size(JOINTS))
    block = Block.on(file, JOINTS)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        began_s = time.monotonic()
        block.policy.write(began_s, Phase.SENDING, Motion(*np.full((3, JOINTS), 0.1)))
        found = watch(block, Process(child.pid), mouth, orders(child.pid), Clock())
        took_s = time.monotonic() - began_s
    finally:
        child.kill()
        child.wait()
        os.close(file)
    assert found.verdict is Verdict.STOP
    assert "hangs: its last command is" in found.why
    assert took_s > 0.4
    assert 1 <= len(twists) <= took_s / DT_S
    assert all((twist.fields["linear"] == 0.0).all() for twist in twists)
    np.testing.assert_allclose([twist.fields["angular"] for twist in twists], 0.0, atol=1e-12)
    assert grips == []
