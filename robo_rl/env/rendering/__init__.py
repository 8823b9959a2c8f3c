"""Pictures of simulated worlds."""
