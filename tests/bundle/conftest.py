"""Fixtures of what is exported."""

from small_export import contract, dataset_obs, graph, manifest, policy

__all__ = ["contract", "dataset_obs", "graph", "manifest", "policy"]
