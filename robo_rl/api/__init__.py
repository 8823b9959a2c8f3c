"""The interfaces that plugins implement: tasks, robots, envs and their specs."""
