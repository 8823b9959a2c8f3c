"""Statistics: intervals, comparisons, power."""
