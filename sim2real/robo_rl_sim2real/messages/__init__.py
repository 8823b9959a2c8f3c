"""ROS 2 interfaces, and the readings that they become."""
