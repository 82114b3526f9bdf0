"""Automatic mixed precision, under PyTorch's names."""

from flambeau.amp import autocast_mode
from flambeau.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from flambeau.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "autocast_mode", "custom_bwd", "custom_fwd", "is_autocast_available"]
