"""Learnt world models."""
