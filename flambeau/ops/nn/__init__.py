"""Operators of neural networks: convolution, pooling, normalisation, losses, attention, recurrence."""
