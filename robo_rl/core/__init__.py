"""Foundations of all other packages: errors, files, names, specs, seeds."""
