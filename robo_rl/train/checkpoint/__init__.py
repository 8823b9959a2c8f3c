"""What training saves, and goes on from."""
