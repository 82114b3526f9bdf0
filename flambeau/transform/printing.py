"""What a tensor inside function transforms prints as: a wrapper per transform that it takes part in, innermost first.

Tensors of a function that is being differentiated are plain ones here; that they belong to it is seen by the graph, which leads
to its inputs. Stands on levels, batched, dual and pullback; core.tensor.printing asks it where a transform is under way.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from flambeau.core.autograd.node import AccumulateGrad, Node
from flambeau.core.tensor import printing
from flambeau.transform.batched import Batch
from flambeau.transform.dual import DualLevel
from flambeau.transform.levels import Level, Wrapped, stack
from flambeau.transform.pullback import Gradient, leads_outside, plain_of

__all__ = ["shown"]


def shown(x: Any) -> str | None:
    """The text of a tensor, or None for one that takes part in no function transform under way."""
    levels = [level for level in stack.levels if not (isinstance(level, Gradient) and level.inputs is None)]
    reached = _nodes_behind(x) if any(isinstance(level, Gradient) for level in levels) else set()
    return _shown(x, levels, reached)


def _shown(x: Any, levels: Sequence[Level], reached: set[Node]) -> str | None:
    while levels:
        *outer, level = levels
        if isinstance(level, Batch) and level.has(x):
            example = _shown(x.value, outer, reached) or _as_outside(x.value)
            return _wrapped("BatchedTensor", len(levels), example, "bdim=0, ")
        if isinstance(level, DualLevel) and level.has(x) and level.of_function:
            return _wrapped("GradTrackingTensor", len(levels), _shown(x.primal, outer, reached) or _as_outside(x.primal))
        if isinstance(level, Gradient) and (before := _tracked(x, level, reached)):
            inside = _shown(before[0], outer, reached)
            return _wrapped("GradTrackingTensor", len(levels), inside or _as_outside(before[0]))
        levels = outer
    return None


def _tracked(x: Any, level: Gradient, reached: set[Node]) -> list[Any]:
    """The tensor as it is outside of a function that is being differentiated, in a list; an empty one if it has no part in it."""
    nodes = [plain_of(given)._node for given in level.inputs or ()]
    for given, node, before in zip(level.inputs or (), nodes, level.before):
        if given is x or (node is not None and plain_of(x)._node is node):
            return [before]
    return [x] if any(node in reached for node in nodes) else []


def _as_outside(x: Any) -> str:
    """The text of a tensor without the part of the graph that is inside of transforms."""
    if isinstance(x, Wrapped):
        return repr(x)
    own = {plain_of(given)._node for level in stack.levels if isinstance(level, Gradient) for given in level.inputs or ()}
    leaves: set[Node] = {node for node in own if type(node) is AccumulateGrad}
    return printing.tensor_repr(x if leads_outside([x], leaves) else x.detach(), inside=False)


def _nodes_behind(x: Any) -> set[Node]:
    """All nodes of the graph that a tensor's value came by."""
    waiting = [plain_of(x)._node]
    found: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found.add(node)
            waiting += [target for target, _ in node.edges]
    return found


def _wrapped(name: str, level: int, inside: str, more: str = "") -> str:
    return f"{name}(lvl={level}, {more}value=\n{textwrap.indent(inside, '    ')}\n)"


printing.inside_transforms = shown
