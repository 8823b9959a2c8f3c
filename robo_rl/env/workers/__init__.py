"""Worker processes that step envs."""
