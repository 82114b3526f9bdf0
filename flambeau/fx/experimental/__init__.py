"""torch.fx.experimental: optimisations over graphs, normal forms, and names of symbolic sizes that libraries import."""
