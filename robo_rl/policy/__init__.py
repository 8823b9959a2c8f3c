"""Policies as Markov chains of kernels."""
