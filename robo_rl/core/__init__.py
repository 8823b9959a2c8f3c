"""What everything stands on: errors, files, names, seeds."""
