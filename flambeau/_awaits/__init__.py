"""torch._awaits: the class of torch.jit._awaitable's results, which annotations name."""

from flambeau.jit.awaitables import Await as _Await

__all__ = ["_Await"]
