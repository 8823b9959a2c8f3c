"""A simulated robot with the topics of the real one."""
