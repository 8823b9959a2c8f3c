"""Demonstrations and logged episodes in training."""
