"""Checks a bundle's contract against the live graph before a run, without sending commands."""
