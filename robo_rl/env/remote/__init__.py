"""Simulators in separate interpreters."""
