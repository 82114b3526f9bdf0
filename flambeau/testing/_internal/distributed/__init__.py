"""torch.testing._internal.distributed: the "fake" backend."""
