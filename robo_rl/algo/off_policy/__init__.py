"""Off-policy learning from replayed transitions."""
