"""The processes of a run: launch, synchronisation and records."""
