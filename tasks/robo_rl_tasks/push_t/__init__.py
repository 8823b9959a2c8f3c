"""Push a T to a target pose: the task, the geometry, and a demonstrator."""
