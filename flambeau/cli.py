"""The command, where scripts `bin/flambeau` of installations before flambeau_torch look for it."""

from flambeau_torch.command import main

__all__ = ["main"]
