"""From readings and pictures to observations."""
