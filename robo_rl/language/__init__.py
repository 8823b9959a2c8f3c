"""Instructions in words, as numbers that policies read."""
