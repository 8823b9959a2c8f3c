"""A simulated robot behind the real one's topics."""
