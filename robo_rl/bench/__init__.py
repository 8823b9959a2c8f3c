"""Benchmarks: suites of tasks × methods × seeds, run cell by cell, kept, and put into tables."""
