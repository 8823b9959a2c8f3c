"""Evaluation of policies, and gates."""
