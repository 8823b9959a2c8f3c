"""Training: loops, stages, evaluation and pipelines."""
