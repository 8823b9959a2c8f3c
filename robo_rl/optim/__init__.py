"""Optimisers, learning-rate schedules, weight averages."""
