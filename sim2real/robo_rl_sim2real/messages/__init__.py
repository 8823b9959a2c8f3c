"""ROS 2 interfaces and their conversion to readings."""
