"""What a robot is commanded: within which limits, and on which topics."""
