"""Pipeline of stages: each runs after the gate of the stage before."""
