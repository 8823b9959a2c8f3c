"""The flight recorder: records observations, chunks, targets and commands as a rosbag2."""
