"""Operators that PyTorch makes of others before any table is asked, where exported graphs have other ones than the function of
that name would give. Importing the room fills the table; used by export.
"""

from flambeau._decomp.composites import attention, distances, einsum, elements, layers, losses, recurrent, reductions
from flambeau._decomp.composites.registry import COMPOSITES, Composite

__all__ = ["COMPOSITES", "Composite", "attention", "distances", "einsum", "elements", "layers", "losses", "recurrent",
           "reductions"]  # fmt: skip
