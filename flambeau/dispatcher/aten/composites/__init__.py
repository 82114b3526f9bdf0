"""What PyTorch makes of other operators, each body once: `registry` has the table, a file the bodies of one subject.

Importing the room fills the table. Used by dispatch modes and by decompositions of graphs.
"""

from flambeau.dispatcher.aten.composites import (
    attention,
    distances,
    einsum,
    elements,
    fourier,
    layers,
    losses,
    recurrent,
    reductions,
)
from flambeau.dispatcher.aten.composites.registry import COMPOSITES, body_of, composite, has_bodies

__all__ = [
    "COMPOSITES", "attention", "body_of", "composite", "distances", "einsum", "elements", "fourier", "has_bodies", "layers",
    "losses", "recurrent", "reductions",
]  # fmt: skip
