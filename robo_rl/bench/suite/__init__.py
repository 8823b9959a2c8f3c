"""Suites: their files, cells and config layers."""
