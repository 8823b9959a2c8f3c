"""Identification of latency from recordings."""
