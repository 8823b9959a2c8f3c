"""Networks over action chunks."""
