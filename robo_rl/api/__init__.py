"""What a plugin is written against: tasks, robots, envs, specs."""
