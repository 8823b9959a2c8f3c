"""Conformance suites that our own and third-party components run alike."""
