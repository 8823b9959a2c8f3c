"""Off-policy evaluation as stages use it."""
