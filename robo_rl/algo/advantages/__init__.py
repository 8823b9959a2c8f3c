"""Advantage estimation: returns, GAE, groups."""
