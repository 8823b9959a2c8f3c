"""Configs, their YAML files, and the components that they name."""
