"""Transport of topics, services and the lifecycle over rclpy."""
