"""The pages of ``docs/reference`` that are written from the code: ``python -m tools.reference``."""
