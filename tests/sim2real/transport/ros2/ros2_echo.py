"""Says on ``/back`` what it hears on ``/there``, by ROS 2's own rclpy: DOMAIN INTERFACE."""

from __future__ import annotations

import sys

from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.transport.base import COMMAND
from robo_rl_sim2real.transport.ros2.transport import Ros2

transport = Ros2(Ros2.Config(domain=int(sys.argv[1])), "echo")
kind = MsgType(sys.argv[2])
back = transport.create_publisher("/back", kind)
transport.subscribe("/there", kind, back.send, COMMAND)
sys.stdin.read()
transport.close()
