"""torch.cond: one of two functions, by a predicate."""

import flambeau as torch

cond = cond_op = torch.cond

__all__ = ["cond", "cond_op"]
