"""A process beside the policy's that brings the robot to rest when that one dies or hangs."""
