"""Demonstrations on disk: episodes as durable commits, and their damage."""
