"""Families of denoising policies: how a network is trained, and the samplers of its chains."""
