"""Checks of a task, run when its env is built."""
