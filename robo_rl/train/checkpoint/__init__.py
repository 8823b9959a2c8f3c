"""Checkpoints, metrics and progress of training."""
