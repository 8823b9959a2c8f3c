"""How a policy explores during training."""
