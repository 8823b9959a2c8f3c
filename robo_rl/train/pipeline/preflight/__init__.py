"""Checks before a run begins: inputs, sight, the policy's fit, and warnings."""
