"""Deployment: runs a bundle on a robot without torch and without a simulator."""
