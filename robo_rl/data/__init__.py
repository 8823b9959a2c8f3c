"""Datasets, normalisers, rollouts and replay."""
