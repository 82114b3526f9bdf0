"""torch.signal: window functions."""

from flambeau.signal import windows

__all__ = ["windows"]
