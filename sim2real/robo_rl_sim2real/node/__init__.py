"""A policy connected with a transport and kept in time."""
