"""Runs the cells of a suite."""
