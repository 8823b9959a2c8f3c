"""How readings come in and commands go out: loopback, DDS, rclpy; one protocol, one contract."""
