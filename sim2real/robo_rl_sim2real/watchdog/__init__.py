"""A separate process that brings the robot to rest if the policy's process dies or hangs."""
