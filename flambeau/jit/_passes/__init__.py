"""torch.jit._passes: PyTorch's name for what its Python does to graphs."""
