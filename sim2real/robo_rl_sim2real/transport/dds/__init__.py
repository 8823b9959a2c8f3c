"""Transport of ROS 2 topics and services over Cyclone DDS."""
