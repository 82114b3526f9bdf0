"""torch.fx.passes.backends: partitions for particular backends."""
