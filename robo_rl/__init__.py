"""Generative robot policies, from demonstrations to a verified deployable policy."""

__version__ = "0.1.0"
