"""Intervals, comparisons, power."""
