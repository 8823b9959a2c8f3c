"""Simulators in interpreters of their own."""
