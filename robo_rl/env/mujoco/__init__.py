"""Simulation of a task by MuJoCo."""
