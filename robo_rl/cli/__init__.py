"""The command line: one short file a verb."""
