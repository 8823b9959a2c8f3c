"""Transports of readings and commands behind one protocol: loopback, DDS and rclpy."""
