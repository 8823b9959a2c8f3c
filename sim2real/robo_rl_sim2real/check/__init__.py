"""A contract against the live graph, before anything moves: looked at here, and nothing is sent."""
