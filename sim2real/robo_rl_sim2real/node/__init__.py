"""The deployment node: a policy connected to a transport and run in real time."""
