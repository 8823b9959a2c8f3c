"""Gymnasium and Meta-World envs."""
