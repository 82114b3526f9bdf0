"""torch._dynamo.backends: what takes the graphs of compiled functions, by name."""
