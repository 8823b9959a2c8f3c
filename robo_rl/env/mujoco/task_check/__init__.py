"""The check of a task when its env is built."""
