"""Simulation of tasks with MuJoCo Warp."""
