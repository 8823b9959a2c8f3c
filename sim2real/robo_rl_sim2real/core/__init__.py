"""What the deployed half stands on."""
