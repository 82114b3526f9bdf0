"""The equalities between sizes of a typed graph, solved: every size that is known to be another's is written as that one.

Stands on graph_gradual_typechecker and unification; needs sympy. Used by programs.
"""

from __future__ import annotations

from typing import Any

from flambeau.fx.experimental.graph_gradual_typechecker import Refine
from flambeau.fx.experimental.refinement_types import Equality
from flambeau.fx.experimental.unification import Var, unify
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.tensor_type import TensorType

__all__ = ["infer_symbolic_types", "infer_symbolic_types_single_pass", "unify_eq"]


def infer_symbolic_types_single_pass(traced: GraphModule) -> None:
    """Name a typed graph's unknown sizes, and write equal ones alike."""
    refine = Refine(traced)
    refine.refine()
    substitute_all_types(traced.graph, unify_eq(refine.constraints))


def infer_symbolic_types(traced: GraphModule) -> None:
    """The same twice, as a first solution may tell what was broadcast; then symbols of sympy, and convolutions' sizes by them."""
    infer_symbolic_types_single_pass(traced)
    infer_symbolic_types_single_pass(traced)
    Refine(traced).symbolic_relations()


def convert_eq(list_of_eq: list[Equality]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The left sides, and the right sides."""
    return tuple([eq.lhs for eq in list_of_eq]), tuple([eq.rhs for eq in list_of_eq])


def unify_eq(list_of_eq: list[Equality]) -> Any:
    """What the names have to be for the equalities to hold, as a dict; False if they can't."""
    return unify(*convert_eq(list_of_eq), {})


def substitute_solution_one_type(mapping: dict[Any, Any], t: Any) -> Any:
    """A type with what `mapping` has for its names."""
    if isinstance(t, Var):
        return mapping.get(t, t)
    if isinstance(t, TensorType):
        return TensorType(tuple([substitute_solution_one_type(mapping, part) for part in t.__args__]))
    if isinstance(t, (list, tuple)):
        return type(t)([substitute_solution_one_type(mapping, part) for part in t])
    return t


def substitute_all_types(graph: Graph, mapping: Any) -> None:
    """Write what `mapping` has for names into all types, until nothing changes."""
    changed = bool(mapping)
    while changed:
        changed = False
        for n in graph.nodes:
            made = substitute_solution_one_type(mapping, n.type)
            changed |= made != n.type
            n.type = made


def check_for_type_equality(g1: Graph, g2: Graph) -> bool:
    """Whether the nodes of two graphs have the same types."""
    return all(n.type == m.type for n, m in zip(g1.nodes, g2.nodes))
