"""The flight recorder: what a node observed, inferred, asked for and sent, as a rosbag2."""
