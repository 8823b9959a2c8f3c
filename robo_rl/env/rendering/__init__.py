"""Rendering of simulated worlds."""
