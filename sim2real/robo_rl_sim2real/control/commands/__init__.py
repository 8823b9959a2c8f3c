"""Robot commands: limits, safety checks, and the topics they are published on."""
