"""The built-in tasks; each is reached through the entry points of group ``robo_rl.tasks``."""
