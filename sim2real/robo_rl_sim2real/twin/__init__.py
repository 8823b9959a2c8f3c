"""Identification of a robot's parameters for its simulation."""
