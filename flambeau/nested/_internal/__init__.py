"""Where PyTorch keeps the classes of jagged nested tensors."""
