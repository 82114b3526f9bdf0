"""Operators under autograd: the Function made of what `register_autograd` was given, and what stands behind results
whose operator has no gradient.

Stands on core.autograd.function and record; used by calling.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.naming import public_module
from flambeau.core.autograd.function import Function
from flambeau.core.autograd.node import NO_EDGE, MultiNode
from flambeau.core.modes import modes
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.record import OperatorRecord

__all__ = ["get_fallback_mode", "recorded", "set_fallback_mode", "warn_in_backward"]

_NO_KERNEL = (
    "{}: an autograd kernel was not registered to the Autograd key(s) but we are trying to backprop through it. "
    "This may lead to silently incorrect behavior. This behavior is deprecated and will be removed in a future "
    "version of PyTorch. If your operator is differentiable, please ensure you have registered an autograd kernel "
    "to the correct Autograd key (e.g. DispatchKey::Autograd, DispatchKey::CompositeImplicitAutograd). If your "
    "operator is not differentiable, or to squash this warning and use the previous behavior, please register "
    "torch::CppFunction::makeFallthrough() to DispatchKey::Autograd."
)


_MODES = ("nothing", "warn")
_fallback = {"mode": "warn"}  # what becomes of operators without an autograd kernel whose arguments want gradients


def get_fallback_mode() -> str:
    """What an operator without an autograd kernel does in a backward pass: "nothing" or "warn"."""
    return _fallback["mode"]


def set_fallback_mode(mode: str) -> None:
    """Choose it for the process. ValueError for any other word."""
    if mode not in _MODES:
        raise ValueError(f"the mode of operators without an autograd kernel is {' or '.join(_MODES)}, not {mode!r}")
    _fallback["mode"] = mode


class _Call:
    """One call on its way through the Function: all arguments, and which of them (or of their items) are tensors."""

    __slots__ = ("places", "run", "values")

    def __init__(self, values: Sequence[Any], run: Callable[[list[Any]], Any]) -> None:
        self.values, self.run = values, run
        self.places: list[tuple[int, int | None]] = []
        for i, x in enumerate(values):
            if isinstance(x, Tensor):
                self.places.append((i, None))
            elif isinstance(x, (list, tuple)):
                self.places += [(i, j) for j, y in enumerate(x) if isinstance(y, Tensor)]

    def tensors(self) -> list[Tensor]:
        return [self.values[i] if j is None else self.values[i][j] for i, j in self.places]

    def filled(self, fill: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        """`others` with the items of `fill` in the places of the tensors."""
        made = [list(x) if isinstance(x, (list, tuple)) else x for x in others]
        for (i, j), x in zip(self.places, fill):
            if j is None:
                made[i] = x
            else:
                made[i][j] = x
        return made

    def shape_of(self, fill: Sequence[Any], nothing: Any) -> list[Any]:
        """`fill` in the structure of the arguments, `nothing` for what is no tensor."""
        blank = [
            [nothing] * len(x) if any(i == k and j is not None for i, j in self.places) else nothing
            for k, x in enumerate(self.values)
        ]
        return self.filled(fill, blank)


def recorded(record: OperatorRecord, values: list[Any], run: Callable[[list[Any]], Any]) -> Any:
    """run(values), and the step of the graph behind its results if an argument wants a gradient."""
    given = _Call(values, run)
    tensors = given.tensors()
    if not (modes.local.grad and any(x._node is not None for x in tensors)):
        before, modes.local.grad = modes.local.grad, False
        try:
            return run(values)
        finally:
            modes.local.grad = before
    if record.function is None:
        record.function = _function_of(record)
    structure: list[Any] = []
    outputs = record.function.apply(given, structure, *tensors)
    return _assembled(structure[0], iter(outputs if isinstance(outputs, tuple) else (outputs,)))


def _flattened(result: Any, into: list[Any]) -> Any:
    """The results in a row, and the structure that they were in: the lengths of lists, -1 for a single one."""
    if isinstance(result, (tuple, list)):
        return type(result), [_flattened(x, into) for x in result]
    into.append(result)
    return None


def _assembled(structure: Any, results: Any) -> Any:
    if structure is None:
        return next(results)
    kind, parts = structure
    return kind([_assembled(part, results) for part in parts])


def _function_of(record: OperatorRecord) -> type[Function]:
    """The autograd.Function of an operator; its arguments are the call, where to put the results' structure, the
    tensors.
    """
    schema = record.schema
    assert schema is not None
    count = schema.positional
    keywords = [argument.name for argument in schema.arguments[count:]]

    def forward(given: _Call, structure: list[Any], *tensors: Any) -> Any:
        flat: list[Any] = []
        structure.append(_flattened(given.run(given.filled(tensors, given.values)), flat))
        return tuple(flat) if len(flat) != 1 else flat[0]

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        given, structure, *tensors = inputs
        ctx.call, ctx.structure = given, structure[0]
        needs = given.shape_of(ctx.needs_input_grad[2:], False)
        ctx.needs_input_grad = tuple(needs[:count])
        gradient = record.gradient
        if gradient is None or gradient.setup_context is None:
            return
        values = given.filled(tensors, given.values)
        made = _assembled(ctx.structure, iter(output if isinstance(output, tuple) else (output,)))
        named = {"keyword_only_inputs": dict(zip(keywords, values[count:]))} if keywords else {}
        gradient.setup_context(ctx=ctx, inputs=tuple(values[:count]), output=made, **named)

    def backward(ctx: Any, *gradients: Any) -> Any:
        gradient = record.gradient
        if gradient is None or gradient.backward is None:
            raise RuntimeError(
                f"Trying to backward through {record} but no autograd formula was registered. Please use "
                "register_autograd to add one."
            )
        arrived = _assembled(ctx.structure, iter(gradients))
        made = gradient.backward(ctx, *(arrived if isinstance(arrived, tuple) else (arrived,)))
        results = list(made) if isinstance(made, tuple) else [made]
        given: _Call = ctx.call
        if len(results) != count:
            raise RuntimeError(
                f"Expected the return from backward to be of the same structure as the inputs. Got {len(results)} "
                f"gradients for {count} inputs of {record}."
            )
        found: list[Any] = []
        for i, j in given.places:
            x = results[i] if i < count else None
            found.append(x if j is None or x is None else x[j])
        return (None, None, *found)

    name = f"GeneratedBackwardFor_{record.namespace}_{record.short_name}_{record.overload or 'default'}"
    body = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "__module__": public_module("autograd.function"),
    }
    return type(name, (Function,), body)


class WarnNotImplemented(MultiNode):
    """Stands behind results of an operator without an autograd kernel: no gradient goes on, with a warning."""

    __slots__ = ("operator_name",)
    operator_name: str

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        warnings.warn(_NO_KERNEL.format(self.operator_name), UserWarning, stacklevel=2)
        return (None,) * len(self.edges)


def warn_in_backward(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Have a backward pass through these results warn that the operator has no gradient of its own.

    Results that are in a graph, by what the kernel itself called or as arguments that it handed back, stay in it. Nothing is
    done where that is what `set_fallback_mode` asked for.
    """
    if _fallback["mode"] == "nothing":
        return

    def warn(gradient: Any) -> None:
        warnings.warn(_NO_KERNEL.format(name), UserWarning, stacklevel=2)

    fresh = []
    for y in outputs:
        if y._node is not None:
            y.register_hook(warn)  # type: ignore[attr-defined]
            base = y._base  # type: ignore[attr-defined]
            if base is not None and base._node is not None and any(y is x for x in inputs):
                base.register_hook(warn)  # a view that was written to
        elif any(y is x for x in inputs):
            continue
        elif y._layout.dtype.is_floating_point or y._layout.dtype.is_complex:
            fresh.append(y)
    if not fresh:
        return
    edges = tuple((x._node, x._index) if x._node is not None else NO_EDGE for x in inputs)
    layouts = tuple(x._layout if x._node is not None else None for x in inputs)
    node = WarnNotImplemented(len(fresh), edges, layouts)
    node.operator_name = name
    for index, y in enumerate(fresh):
        y._node, y._index = node, index
