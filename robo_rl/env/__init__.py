"""Vectorised envs: MuJoCo, MuJoCo Warp, Gymnasium and remote simulators."""
