"""The online RL training loop."""
