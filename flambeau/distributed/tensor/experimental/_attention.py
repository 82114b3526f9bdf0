"""torch.distributed.tensor.experimental._attention: the older name of `_context_parallel`."""

from flambeau.distributed.tensor.experimental import _context_parallel
from flambeau.distributed.tensor.experimental._context_parallel import *  # noqa: F403

__all__ = _context_parallel.__all__
