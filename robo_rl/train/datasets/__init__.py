"""Demonstrations and logged episodes for training."""
