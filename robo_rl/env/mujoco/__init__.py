"""Simulation of tasks with MuJoCo."""
