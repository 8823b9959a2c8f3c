"""Kept results of a suite, and what follows from them."""
