"""Conversion of readings and images to observations."""
