"""Stages in order, each behind the gate of the one before."""
