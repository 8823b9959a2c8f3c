"""Vectorised worlds."""
