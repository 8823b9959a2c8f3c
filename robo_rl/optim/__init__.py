"""Optimisers, schedules, averaged weights."""
