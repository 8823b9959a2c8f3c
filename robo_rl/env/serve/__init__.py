"""What runs in a simulator's own interpreter; nothing here imports anything of robo_rl."""
