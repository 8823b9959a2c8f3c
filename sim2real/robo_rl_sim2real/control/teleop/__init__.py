"""Teleoperation: a human controls the robot."""
