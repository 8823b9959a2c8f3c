"""Verbs of the command line that run on robots; ``robo-rl`` finds them by their entry points."""
