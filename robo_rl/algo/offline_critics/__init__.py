"""Critics of logged decisions."""
