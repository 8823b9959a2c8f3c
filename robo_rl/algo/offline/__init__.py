"""Offline RL: a policy improved on data alone."""
