"""robo-rl under ROS 2: an export bundle as a managed node."""
