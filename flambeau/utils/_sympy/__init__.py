"""torch.utils._sympy: ranges of symbolic sizes by the names that PyTorch has for them."""
