"""torch._decomp.decompositions: operators of aten in terms of its core operators, as PyTorch's printed graphs have them.

Importing the room fills the table. A rule that answers NotImplemented leaves the operator as it is.
"""

from flambeau._decomp.decompositions import (
    activations,
    arithmetic,
    factories,
    indexing,
    layers,
    losses,
    reductions,
    resampling,
    views,
)

__all__ = ["activations", "arithmetic", "factories", "indexing", "layers", "losses", "reductions", "resampling", "views"]
