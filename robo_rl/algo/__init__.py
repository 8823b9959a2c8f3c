"""Learning algorithms: they see policies and tensors, never an env."""
