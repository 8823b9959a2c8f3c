"""Shared basics of deployment: clock and lifecycle states."""
