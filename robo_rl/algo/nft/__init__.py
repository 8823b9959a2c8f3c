"""Negative-aware fine-tuning."""
