"""torch.distributed.nn.api: modules on other processes; names to import."""
