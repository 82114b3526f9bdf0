"""torch.cond: one of two functions, by a predicate."""

import flambeau as torch

cond = torch.cond

__all__ = ["cond"]
