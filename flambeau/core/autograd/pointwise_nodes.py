"""Recorders: straight-line code that makes the graph node of a pointwise call.

What a node holds follows from the call's kind: which operands need gradients, what the recipe saves. One recorder is generated
per such pattern, and bound to the layouts and the recipe of a plan, so that recording costs an allocation and a few stores.
Stands on core.operator.pointwise and core.autograd.node; the functions that core.operator.variants generates call recorders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.autograd.node import NO_EDGE, next_sequence
from flambeau.core.operator.pointwise import NUMBERS, Folded, Pointwise, refuse_integers
from flambeau.core.tensor.tensor import Tensor, tensor_from

_SOURCE = """
def bind(kind, inputs, recipe, new, next_sequence, tensor_from, NO_EDGE):
    def record(out, {arguments}):
        node = new(kind)
        node.edges = ({edges},)
        node.inputs = inputs
        node.saved = {saved}
        node.versions = {versions}
        node.sequence = next_sequence()
        node.extras = None
        node.recipe = recipe
        return node
    return record
"""
_binders: dict[Any, Callable] = {}


def recorder_of(operator: Pointwise, which: int, out: Tensor, operands: tuple, numbers: tuple, statics: tuple) -> Callable:
    """A function (result, operands..., numbers that are passed at run time...) -> Node for calls like this one.

    which: bit i says that operand i needs a gradient. The result of an operator without derivative gets None for its node.
    """
    if not operator.differentiable:
        return _nothing
    refuse_integers(out._layout.dtype)
    needed = tuple([bool(which >> i & 1) for i in range(len(operands))])
    recipe = operator.recipe(operands, numbers, statics, needed)
    passed = [i for i, kind in enumerate(operator.number_kinds(numbers)) if kind is not Folded]
    shape = (needed, recipe.saves, tuple([x.__class__ in NUMBERS for x in operands]), tuple(passed))
    bind = _binders.get(shape)
    if bind is None:
        bind = _binders[shape] = _binder(needed, recipe.saves, operands, passed)
    inputs = tuple([x._layout if need else None for x, need in zip(operands, needed)])
    return bind(recipe.node_class, inputs, recipe, object.__new__, next_sequence, tensor_from, NO_EDGE)


def _binder(needed: tuple, saves: tuple, operands: tuple, passed: list[int]) -> Callable:
    names = [f"x{i}" for i in range(len(operands))]
    values, versions = [], []
    for source in saves:
        if source == -1:
            values.append("tensor_from(out._storage, out._offset, out._layout)")
            versions.append("out._storage.version")
        elif source >= len(operands):
            values.append(f"n{source - len(operands)}")
            versions.append("None")
        else:
            values.append(names[source])
            versions.append("None" if operands[source].__class__ in NUMBERS else f"{names[source]}._storage.version")
    source = _SOURCE.format(
        arguments=", ".join([*names, *[f"n{i}" for i in passed]]),
        edges=", ".join(f"({n}._node, {n}._index)" if need else "NO_EDGE" for n, need in zip(names, needed)),
        saved="(" + "".join(f"{v}, " for v in values) + ")",
        versions="(" + "".join(f"{v}, " for v in versions) + ")",
    )
    scope: dict[str, Any] = {}
    exec(compile(source, "<flambeau recorder>", "exec"), scope)
    return scope["bind"]


def _nothing(*arguments: Any) -> None:
    """The recorder of a result without gradient."""
