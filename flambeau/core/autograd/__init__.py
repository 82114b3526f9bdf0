"""The graph and the engine that runs it backwards."""
