"""Processes that step envs."""
