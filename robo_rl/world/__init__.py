"""Learnt worlds."""
