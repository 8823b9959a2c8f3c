"""The built-in tasks; each is registered as an entry point of group ``robo_rl.tasks``."""
