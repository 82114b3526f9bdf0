"""The passes that every compiled graph goes through, in PyTorch's order.

Stands on the other passes; called by the emitter.
"""

from __future__ import annotations

from flambeau.jit.ir.graph import Graph
from flambeau.jit.passes import constants, dead_code, exits, loops, normalize, outputs, ssa, tuples

__all__ = ["finish"]


def finish(graph: Graph) -> None:
    """Bring a graph from the emitter's form to the final one."""
    ssa.convert(graph)
    exits.transform(graph)
    loops.canonicalize_modified(graph)
    normalize.rename_aliases(graph)
    tuples.lower_simple(graph)
    dead_code.eliminate(graph)
    constants.propagate_immutable(graph)
    constants.pool(graph)
    outputs.canonicalize(graph)
