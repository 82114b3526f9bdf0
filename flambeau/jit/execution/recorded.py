"""The code of a program's function for a run that is recorded as a graph with control flow in it, as torch.export's is.

A truth that only values tell doesn't choose here: it stays the tensor, or the number, that it is, and `if` becomes torch.cond of
two functions. Integers don't wrap, as sizes with symbols would be compared with the bounds. Stands on generate; used by run.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from flambeau.base.symbolic.numbers import SymBool, is_symbolic_number
from flambeau.core.tensor.fakes import is_fake, known_value
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher import higher_order
from flambeau.dispatcher.schema import FunctionSchema
from flambeau.jit.execution import generate
from flambeau.jit.execution.expressions import expression
from flambeau.jit.ir.function import Function
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.types import TensorType

__all__ = ["runner_of"]

_PLAIN = {"aten::add": operator.add, "aten::sub": operator.sub, "aten::mul": operator.mul}


def runner_of(function: Function) -> Callable[..., Any]:
    """A Python function that does what a program's function does, where the modes that are on record it."""
    function.ensure_defined()
    made = function.runners.get("recorded")
    if made is None:
        made = function.runners["recorded"] = _Generator(function, True).made()
    return made


class _Generator(generate.Generator):
    def __init__(self, function: Function, looked_into: bool) -> None:
        super().__init__(function, looked_into)
        self.scope.update(truth=_truth, choose=_choose, plain=_plain)
        self.functions = 0

    def runner_of(self, function: Function) -> Callable[..., Any]:
        """What runs a function that this one calls."""
        return runner_of(function)

    def node(self, node: Node) -> None:
        """The lines of a node."""
        schema = node.note
        if isinstance(schema, FunctionSchema) and node.kind() == "aten::Bool":
            self.give(node, f"truth({self.read(node.inputsAt(0))})")
        elif isinstance(schema, FunctionSchema) and node.kind() in _PLAIN and not isinstance(schema.returns[0].type, TensorType):
            general = expression(node, self.read, self.hand_over, True)
            sign = self.hand_over(_PLAIN[node.kind()], "f")
            a, b = map(self.read, list(node.inputs())[:2])
            self.give(node, f"{sign}({a}, {b}) if plain({a}, {b}) else {general}")
        else:
            super().node(node)

    def _prim_If(self, node: Node) -> None:
        outputs = list(node.outputs())
        names = []
        for block in node.blocks():
            self.functions += 1
            names.append(f"branch{self.functions}")
            self.line(f"def {names[-1]}():")
            self.depth += 1
            self.block(block)
            own = {x.unique() for node in block.nodes() for x in node.outputs()}
            made = [self.read(x) for x in block.outputs()]
            outer = [t for t, x in zip(made, block.outputs()) if x.unique() not in own and isinstance(x.type(), TensorType)]
            self.line(f"return ({''.join(x + ', ' for x in made)}), ({''.join(x + ', ' for x in outer)})")
            self.depth -= 1
        call = f"choose({self.read(node.inputsAt(0))}, {', '.join(names)})"
        self.line(f"{''.join(f'v{x.unique()}, ' for x in outputs).rstrip()} = {call}" if outputs else call, node)


def _truth(value: Any) -> Any:
    """The truth of a value; itself where only a run tells it."""
    if isinstance(value, Tensor) and is_fake(value._layout) and known_value(value) is None:
        return value
    if is_symbolic_number(value):
        return value if isinstance(value, SymBool) else value != 0
    return bool(value)


def _plain(a: Any, b: Any) -> bool:
    """Whether there are symbolic numbers, whose arithmetic doesn't wrap."""
    return is_symbolic_number(a) or is_symbolic_number(b)


def _choose(truth: Any, first: Callable[..., Any], second: Callable[..., Any]) -> Any:
    """What the branch of a truth gives; an operator of both branches where only a run tells it.

    Each gives its results, and those of them that it didn't make: an operator can't give these back, so it gives copies, and from
    then on the program may write to neither.
    """
    flow = higher_order.flow()
    if not isinstance(truth, (Tensor, SymBool)) or flow is None:
        return (first if truth else second)()[0]
    shared: list[Tensor] = []

    def copied(branch: Callable[..., Any]) -> Any:
        made, outer = branch()
        shared.extend(outer)
        return tuple([x.clone() if any(x is y for y in outer) else x for x in made])

    made = flow.cond(truth, lambda: copied(first), lambda: copied(second), ())
    if shared:
        flow.read_only([*shared, *made])
    return made
