"""Generates the pages of ``docs/reference`` from the code: ``python -m tools.reference``."""
