"""Episodes on disk: durable commits, verification and repair."""
