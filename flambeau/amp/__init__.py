"""Automatic mixed precision, under PyTorch's names."""

from flambeau.amp.grad_scaler import GradScaler

__all__ = ["GradScaler"]
