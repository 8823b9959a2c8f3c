"""Columns of datasets of other software, and a mapping of their names and units."""
