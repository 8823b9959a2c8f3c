"""Tables, plots and remarks of a suite."""
