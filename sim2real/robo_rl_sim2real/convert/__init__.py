"""Conversion of robot recordings to datasets in the schema of training."""
