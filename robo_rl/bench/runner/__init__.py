"""Running the cells of a suite."""
