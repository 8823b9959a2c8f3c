"""Push a T to a target pose: the task, its shape, and a demonstrator."""
