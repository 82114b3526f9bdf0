"""torch.testing._internal: the few of PyTorch's own helpers for tests that programs use."""
