"""Benchmark suites of tasks × methods × seeds: run cell by cell, kept, and tabulated."""
