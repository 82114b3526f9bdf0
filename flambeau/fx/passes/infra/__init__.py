"""torch.fx.passes.infra: passes, managers of passes, and partitions by what a backend can do."""
