"""Off-policy evaluation for stages."""
