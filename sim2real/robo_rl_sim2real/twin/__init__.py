"""The robot's twin: what is identified of it."""
