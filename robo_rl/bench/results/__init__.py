"""Kept results of a suite, and statistics of them."""
