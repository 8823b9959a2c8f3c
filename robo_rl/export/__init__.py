"""Bundles: what leaves training and runs on a robot."""
