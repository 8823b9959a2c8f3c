"""Policies as Markov chains of Gaussian kernels."""
