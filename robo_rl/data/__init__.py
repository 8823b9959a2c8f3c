"""Datasets, normalisers and rollouts."""
