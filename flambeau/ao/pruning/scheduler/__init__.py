"""What changes the sparsity over time. Its modules have the names of PyTorch's."""
