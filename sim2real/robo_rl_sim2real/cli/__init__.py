"""Command-line verbs that run on robots; ``robo-rl`` finds them by their entry points."""
