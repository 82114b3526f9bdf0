"""Operators that PyTorch has below its public functions."""
