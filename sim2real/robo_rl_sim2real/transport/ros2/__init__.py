"""Topics, services and the lifecycle over rclpy."""
