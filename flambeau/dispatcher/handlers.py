"""Who answers operators below autograd: the modes of this thread, innermost first, then the classes of the tensors.

A handler runs with nothing recorded: the node of the outer call is `graphs`' business.
Stands on core.modes.interception and core.modes.modes;
used by graphs and overloads.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from flambeau.core.modes import interception
from flambeau.core.modes.modes import local
from flambeau.core.tensor.storage import without_memory
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.dispatcher import replaced

__all__ = ["RULES", "answers", "each_tensor", "hand_over"]


def each_tensor(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among values and in their lists."""
    for x in values:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from each_tensor(x)


def answers(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a call of an operator with these arguments is answered by a mode or by a tensor's class; a transform under way
    takes a call before classes do, which then answer for what its tensors hold.
    """
    if local.dispatch_modes or interception.replaced():
        return True
    if not interception.watching() or not (interception.watched(args) or interception.watched(kwargs.values())):
        return False
    return not any(hasattr(x._layout.flavor, "answered_first") for x in each_tensor([*args, *kwargs.values()]))


def hand_over(overload: Any, args: Sequence[Any], kwargs: dict[str, Any], name: str | None = None) -> Any:
    """What the innermost mode answers to a call of an overload, else the class of an argument, subclasses before their bases.
    TypeError, with the overload's name or `name`, if all of them decline.
    """
    asked: list[Tensor] = []
    for x in interception.watched([*args, *kwargs.values()]):
        if not any(type(x) is type(y) for y in asked):
            asked.insert(next((i for i, y in enumerate(asked) if issubclass(type(x), type(y))), len(asked)), x)
    types = tuple([type(x) for x in asked])
    written = [(x, x._storage.writes) for x in asked and _written(overload, args, kwargs)]
    before, local.grad = local.grad, False
    inside, local.below = local.below, True
    try:
        made, refused = _asked(overload, asked, types, tuple(args), kwargs)
    finally:
        local.grad, local.below = before, inside
    for x, version in written:
        if x._storage.writes == version:
            x._storage.writes += 1
    if made is NotImplemented:
        raise TypeError(
            f"Multiple dispatch failed for 'torch.{name or f'_ops.{overload}'}'; all __torch_dispatch__ handlers returned "
            "NotImplemented:\n\n"
            + "".join(f"  - {who}\n" for who in refused)
            + "\nFor more information, try re-running with TORCH_LOGS=not_implemented"
        )
    if inside or before or not overload.is_view:  # of a view, taken where a program records nothing, autograd keeps track
        made = _outside(overload, made, args, kwargs)
    if asked and overload.is_view:  # it counts its writes with what it shows
        for x in interception.watched([made]):
            if without_memory(x._storage) and isinstance(args[0], Tensor) and without_memory(args[0]._storage):
                x._storage = args[0]._storage
    return made


def _written(overload: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Tensor]:
    """The arguments without memory that a call writes to, as its schema says."""
    named = dict(zip([a.name for a in overload._schema.arguments], args)) | kwargs
    written = [named[a.name] for a in overload._schema.arguments if a.is_write and a.name in named]
    return [x for x in interception.watched(written) if without_memory(x._storage)]


def _asked(
    overload: Any, asked: list[Tensor], types: tuple[type, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, list[str]]:
    refused = []
    stack = local.dispatch_modes
    if stack:
        mode = stack.pop()  # what it calls belongs to the modes outside
        if isinstance(getattr(mode.__torch_dispatch__, "__self__", None), type):
            stack.append(mode)
            raise RuntimeError(
                f"Defining your mode's `__torch_dispatch__` as a classmethod is not supported, please make it a "
                f"plain method: {type(mode).__name__}"
            )
        try:
            made = _rule(overload, type(mode), mode, mode.__torch_dispatch__)(overload, types, args, kwargs)
        finally:
            stack.append(mode)
        if made is not NotImplemented:
            return made, refused
        refused.append(f"mode object {mode!r}")
    for x, cls in zip(asked, types):
        own = x.__torch_dispatch__  # type: ignore[attr-defined]
        made = _rule(overload, cls, cls, own)(overload, types, args, kwargs)
        if made is not NotImplemented:
            return made, refused
        refused.append(f"tensor subclass {cls!r}")
    if not refused and interception.replaced():
        return replaced.run(overload, args, kwargs), refused
    return NotImplemented, refused


#: What programs have registered to answer an operator for a class of tensors or modes, by the operator's name and the class.
RULES: dict[tuple[str, type], Any] = {}


def _rule(overload: Any, cls: type, first: Any, own: Any) -> Any:
    """The rule that is registered for an operator and a class, called with the class or mode in front; else `own`."""
    rule = RULES.get((overload._name, cls)) if RULES else None
    return own if rule is None else functools.partial(rule, first)


def _outside(overload: Any, made: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A handler's result without a place in the graph: views taken where nothing is recorded have one. RuntimeError if it isn't
    what the schema says.
    """
    returns = overload._schema.returns
    if len(returns) == 1 and str(returns[0].type) == "Tensor" and not (made is None or isinstance(made, Tensor)):
        raise RuntimeError(f"Unable to cast {made!r} to Tensor")
    if not any(x._node is not None for x in each_tensor([made])):
        return made
    given = {id(x) for x in each_tensor([*args, *kwargs.values()])}
    for x in each_tensor([made]):
        if x._node is not None and id(x) not in given:
            x._node, x._index = None, 0
            if hasattr(x, "_creation"):
                del x._creation
    return made


def shallow(x: Tensor) -> Any:
    """Another tensor that is the same but for its place in the graph."""
    made = tensor_from(x._storage, x._offset, x._layout)
    if type(x) is not Tensor and interception.watched([x]):
        made = interception.overrides.become(made, type(x))
        made.__dict__.update(x.__dict__)
        for name, value in interception.overrides.slots_of(x).items():
            setattr(made, name, value)
    return made
