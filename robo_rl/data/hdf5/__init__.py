"""Datasets in HDF5: robomimic in and out, Minari and D4RL in."""
