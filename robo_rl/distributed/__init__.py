"""Distributed training with several processes."""
