"""Gradients through transforms: which tensors to differentiate with respect to, and the pullback of wrapped tensors.

The graph holds plain tensors only. So a wrapped tensor is differentiated by what it holds: a batch of examples at
once, since each example's outputs depend on its own inputs; a dual tensor as a pair, whose tangent is the derivative
of its gradient. Stands on batched, dual and core.autograd.engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

from flambeau.core.autograd import engine
from flambeau.core.autograd.mutation_guard import guarded
from flambeau.core.autograd.node import AccumulateGrad, Node
from flambeau.core.modes.modes import inference_mode
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.transform.batched import Batch, Batched
from flambeau.transform.dual import Dual, DualLevel
from flambeau.transform.levels import Level, Wrapped, deepest, each_tensor, has_no_data, stack

__all__ = ["Gradient", "fresh", "gradients", "leads_outside", "normal", "plain_of", "settled"]


class Gradient(Level):
    """A function being differentiated: it may write to these arguments and to what it makes, not to what it captured.

    It runs outside inference mode, which has no graph. inputs: what it is differentiated by, and `before`: what they are outside;
    None in forward mode.
    """

    inputs: Sequence[Any] | None = None
    before: Sequence[Any] = ()

    def __init__(self, arguments: Iterable[Any]) -> None:
        self.arguments = arguments

    def __enter__(self) -> Gradient:
        super().__enter__()
        self.guard = guarded([p for x in each_tensor(self.arguments) for p in plain_parts(x)])
        self.guard.__enter__()
        self.normal = inference_mode(False)
        self.normal.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.normal.__exit__(*exception)
        super().__exit__(*exception)
        self.guard.__exit__(*exception)


def normal(x: Any) -> Any:
    """A tensor that a graph can be recorded of: a copy of one that was made in inference mode."""
    return x.clone() if not isinstance(x, Wrapped) and x._storage.inference else x


def plain_parts(x: Any) -> list[Tensor]:
    """The plain tensors that a tensor holds: its examples, its value and its tangent."""
    if isinstance(x, Dual):
        return [*plain_parts(x.primal), *plain_parts(x.tangent)]
    return plain_parts(x.held) if isinstance(x, Wrapped) else [x]


def fresh(x: Tensor, levels: Sequence[Level] | None = None, joined: bool = True) -> Any:
    """An alias of x to differentiate with respect to: a tensor of its own for each example of every vmap around.

    levels: the levels that x may be wrapped in, outermost first (default: those in progress); joined: whether it goes
    on to x's own place in the graph.
    """
    levels = stack.levels if levels is None else levels
    if not levels:
        if not (x._layout.dtype.is_floating_point or x._layout.dtype.is_complex):
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if joined and x._node is not None:
            return x.alias()  # type: ignore[attr-defined]
        made: Any = normal(x).detach()
        made.requires_grad = True
        return made
    level, outer = levels[-1], levels[:-1]
    if isinstance(level, Batch):
        return level.wrap(fresh(level.lift(x), outer, joined))
    if isinstance(level, DualLevel) and level.has(x):
        return level.wrap(fresh(x.primal, outer, joined), x.tangent)  # type: ignore[attr-defined]
    return fresh(x, outer, joined)


def plain_of(x: Any) -> Tensor:
    """The plain tensor whose place in the graph is x's."""
    while isinstance(x, Wrapped):
        x = x.held
    return x


def leads_outside(tensors: Sequence[Any], own: Set[Node]) -> bool:
    """Whether the graph behind the tensors has a leaf, or goes on, beyond the nodes in `own`."""
    waiting = [p._node for p in map(plain_of, tensors) if p._node is not None]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in seen or node in own:
            continue
        seen.add(node)
        if type(node) is AccumulateGrad and node.variable is not None:  # a leaf that somebody holds
            return True
        waiting += [target for target, _ in node.edges if target is not None]
    return False


def settled(x: Any, own: Set[Node], recorded: bool) -> Any:
    """A result on its way out: in the graph only if that leads to something the caller may differentiate."""
    parts = [x.primal, x.tangent] if isinstance(x, Dual) else [x]
    if not isinstance(x, Wrapped) and x._node is None:
        return x
    return x if recorded and leads_outside(parts, own) else _out_of_graph(x)


def _out_of_graph(x: Any) -> Any:
    """x.detach() that leaves a tangent where it is."""
    if isinstance(x, Dual) and x.level.depth:
        return x.level.wrap(_out_of_graph(x.primal), _out_of_graph(x.tangent))  # type: ignore[attr-defined]
    if isinstance(x, Batched) and x.level.depth:
        return x.level.wrap(_out_of_graph(x.value))  # type: ignore[attr-defined]
    return x.detach()


def gradients(outputs: Sequence[Any], inputs: Sequence[Any], weights: Sequence[Any], create_graph: bool) -> list[Any]:
    """Per input the gradient of the outputs with these weights, None where it has no influence.

    All may be wrapped; the inputs are those that `fresh` made, or plain. The graph is kept.
    """
    level = deepest([*outputs, *inputs])
    if level is None:
        return _plain(outputs, inputs, weights, create_graph)
    if isinstance(level, Batch):
        made = gradients(
            [level.lift(y) for y in outputs],
            [level.lift(x) for x in inputs],
            [_examples(level, w) for w in weights],
            create_graph,
        )
        return [None if g is None else _batched(level, g) for g in made]
    assert isinstance(level, DualLevel)
    primals = [level.primal(x) for x in inputs]
    values, tangents = [level.primal(y) for y in outputs], [level.tangent(y) for y in outputs]
    pairs = [_dual_parts(level, w) for w in weights]
    made = gradients(values, primals, [w for w, _ in pairs], create_graph)
    moving = [(t, w) for t, (w, _) in zip(tangents, pairs, strict=True) if t is not None]
    moving += [(y, d) for y, (_, d) in zip(values, pairs, strict=True) if d is not None]
    rates: list[Any] = [None] * len(inputs)
    if moving:
        rates = gradients([y for y, _ in moving], primals, [w for _, w in moving], create_graph)
    return [
        rate if g is None and rate is None else _dual(level, NAMESPACE["zeros_like"](p) if g is None else g, rate)
        for g, rate, p in zip(made, rates, primals, strict=True)
    ]


def _plain(outputs: Sequence[Any], inputs: Sequence[Any], weights: Sequence[Any], create_graph: bool) -> list[Any]:
    """Gradients of plain tensors, whose weights may be wrapped: the engine then computes with wrapped gradients."""
    pairs = [(y, w) for y, w in zip(outputs, weights, strict=True) if y._node is not None]
    if not pairs:
        return [None] * len(inputs)
    level = deepest([w for _, w in pairs])
    try:
        return list(
            engine.grad([y for y, _ in pairs], list(inputs), [w for _, w in pairs], True, create_graph, allow_unused=True)
        )
    except RuntimeError as error:  # a rule that reads memory: once per example then
        if not has_no_data(error) or not isinstance(level, Batch):
            raise
    results = []
    for i in range(level.size):
        part = [w.value.select(0, i) if level.has(w) else w for _, w in pairs]
        results.append(_plain([y for y, _ in pairs], inputs, part, create_graph))
    return [None if column[0] is None else level.wrap(NAMESPACE["stack"](list(column))) for column in zip(*results)]


def _examples(level: Batch, x: Any) -> Any:
    """All examples of a weight, also where a deeper level wraps it."""
    if isinstance(x, Wrapped) and x.level.depth > level.depth:
        if isinstance(x, Batched):
            return x.level.wrap(_examples(level, x.value).movedim(1, 0))
        return x.level.wrap(_examples(level, x.primal), None if x.tangent is None else _examples(level, x.tangent))
    return level.lift(x)


def _batched(level: Batch, x: Any) -> Any:
    """The inverse of `_examples`: all examples as one, inside of what deeper levels wrap."""
    if isinstance(x, Wrapped) and x.level.depth > level.depth:
        if isinstance(x, Batched):
            return x.level.wrap(_batched(level, x.value.movedim(1, 0)))
        return x.level.wrap(_batched(level, x.primal), None if x.tangent is None else _batched(level, x.tangent))
    return level.wrap(x)


def _dual(level: DualLevel, primal: Any, tangent: Any) -> Any:
    """The inverse of `_dual_parts`."""
    outer = deepest([primal] if tangent is None else [primal, tangent])
    if isinstance(outer, Batch) and outer.depth > level.depth:
        return outer.wrap(_dual(level, outer.lift(primal), None if tangent is None else outer.lift(tangent)))
    return level.wrap(primal, tangent)


def _dual_parts(level: DualLevel, x: Any) -> tuple[Any, Any]:
    """(primal, tangent or None) of a weight, also where a deeper level wraps it."""
    if isinstance(x, Batched) and x.level.depth > level.depth:
        primal, tangent = _dual_parts(level, x.value)
        return x.level.wrap(primal), None if tangent is None else x.level.wrap(tangent)
    return level.primal(x), level.tangent(x)


# ---------------------------------------------------------------- autograd.grad of wrapped tensors


def gradients_of(
    outputs: Sequence[Any],
    inputs: Sequence[Any],
    grad_outputs: Any,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple[Any, ...]:
    """autograd.grad of dual or batched tensors."""
    given = (
        [None] * len(outputs)
        if grad_outputs is None
        else [grad_outputs]
        if isinstance(grad_outputs, Tensor)
        else list(grad_outputs)
    )
    for position, (y, w) in enumerate(zip(outputs, given, strict=True)):
        if y._node is None:
            raise RuntimeError(f"element {position} of tensors does not require grad and does not have a grad_fn")
        if w is None:
            if y._layout.numel != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            given[position] = NAMESPACE["ones_like"](y.detach())
    return checked(gradients(outputs, inputs, given, create_graph), inputs, allow_unused, materialize_grads)


def checked(made: Sequence[Any], inputs: Sequence[Any], allow_unused: bool | None, materialize_grads: bool) -> tuple[Any, ...]:
    """Gradients as autograd.grad returns them. RuntimeError where an input had no influence, unless that is allowed."""
    for position, gradient in enumerate(made):
        if gradient is None and not (allow_unused or materialize_grads):
            raise RuntimeError(
                f"The differentiated Tensor at index {position} appears to not have been used in the graph. Set "
                "allow_unused=True if this is the desired behavior."
            )
    if materialize_grads:
        return tuple(NAMESPACE["zeros_like"](x.detach()) if g is None else g for g, x in zip(made, inputs, strict=True))
    return tuple(made)


Wrapped.gradients_of = staticmethod(gradients_of)  # type: ignore[attr-defined]
