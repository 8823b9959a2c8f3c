"""The control loop: observation, inference, lifecycle, safety and teleoperation."""
