"""Gymnasium's and Meta-World's envs."""
