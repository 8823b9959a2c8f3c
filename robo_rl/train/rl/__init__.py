"""The loop of online RL."""
