"""Configs, their files, and the components that they name."""
