"""Stages that make or take in datasets."""
