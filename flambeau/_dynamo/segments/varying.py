"""Which sizes and numbers among a function's arguments may differ between calls.

A size is a number in the first graph. One that was another in an earlier call may differ from then on, as may those that
torch._dynamo.mark_dynamic marks, and all with dynamic=True; never those of parameters, 0, 1, and what mark_static marks. Stands
on sizes and config; used by _dynamo.compiled.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from flambeau._dynamo import config
from flambeau._dynamo.segments.sizes import SizeInt
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn.parameter import Parameter

__all__ = ["Varying"]


class Varying:
    """The arguments of one call. known: what was seen of those of earlier calls, by the expressions for them, which is kept up to
    date: shapes with None for sizes that differed, numbers or None. dynamic: as torch.compile has it.
    """

    def __init__(self, known: dict[str, Any], dynamic: bool | None) -> None:
        self.known, self._before = known, dict(known)
        self.at_once = dynamic is True or (dynamic is None and not config.assume_static_by_default)
        self.later = dynamic is None and config.automatic_dynamic_shapes
        self.found: dict[int, tuple[Any, frozenset[int]]] = {}  # by tensors' identities, for tensors of that shape
        self.ints: list[SizeInt] = []

    def forget(self) -> None:
        """What this call was the first to tell is not known: there is no graph of it."""
        self.known.clear()
        self.known.update(self._before)

    def of(self, tensor: Tensor) -> frozenset[int]:
        """The dimensions of a tensor whose sizes may differ."""
        shape, dims = self.found.get(id(tensor), _UNKNOWN)
        return dims if shape == tensor._layout.shape else _NONE

    def variable(self, tensor: Tensor, source: str) -> frozenset[int]:
        """The same of a tensor that a graph gave, and that the program reaches by this expression."""
        if id(tensor) not in self.found and (self.at_once or self.later):
            self.found[id(tensor)] = _UNKNOWN
            self._tensor(tensor, source)
        return self.of(tensor)

    def arguments(self, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The arguments, with SizeInts, which `ints` has then, in the place of numbers that may differ."""
        if not (self.at_once or self.later or _any_marked((*args, *kwargs.values()))):
            return args, kwargs
        names = _names(function, len(args))
        made = [
            self._look(x, f"L['{name}']" if name is not None else f"L['args'][{i}]")
            for i, (name, x) in enumerate(zip(names, args))
        ]
        named = {key: self._look(x, f"L['{key}']") for key, x in kwargs.items()}
        return (tuple(made), named) if self.ints else (args, kwargs)

    def _look(self, x: Any, source: str, top: bool = True) -> Any:
        kind = x.__class__
        if isinstance(x, Tensor):
            if not isinstance(x, Parameter) and x._layout.flavor is None:
                self._tensor(x, source)
        elif kind is int and top:
            return self._int(x, source)
        elif kind in (list, tuple):
            for i, y in enumerate(x):
                self._look(y, f"{source}[{i}]", False)
        elif kind is dict:
            for key, y in x.items():
                self._look(y, f"{source}[{key!r}]", False)
        return x

    def _tensor(self, tensor: Tensor, source: str) -> None:
        shape = tensor._layout.shape
        before = self.known.get(source)
        if before.__class__ is int:
            before = None
        if before is None or len(before) != len(shape):
            self.known[source] = before = shape if before is None else (None,) * len(shape)  # another rank tells nothing of sizes
            changed = frozenset[int]()
            if before and None in before:
                self.known[source] = shape
        else:
            changed = frozenset([d for d, (a, b) in enumerate(zip(before, shape)) if a != b])
            if changed and self.later:
                self.known[source] = tuple([None if d in changed else a for d, a in enumerate(before)])
        marks = tensor.__dict__
        wanted = set(range(len(shape))) if self.at_once else set(changed) if self.later else set()
        wanted |= marks.get("_dynamo_weak_dynamic_indices", _NONE)
        wanted -= marks.get("_dynamo_static_indices", _NONE)
        wanted |= marks.get("_dynamo_dynamic_indices", _NONE)
        marked = marks.get("_dynamo_dynamic_indices", _NONE) | marks.get("_dynamo_weak_dynamic_indices", _NONE)
        if marked:
            self.known[source] = tuple([None if d in marked else n for d, n in enumerate(self.known[source])])
        found = frozenset([d for d in wanted if shape[d] > 1])
        if found:
            self.found[id(tensor)] = shape, found

    def _int(self, x: int, source: str) -> Any:
        if config.specialize_int:
            return x
        before = self.known.setdefault(source, x)
        if before is not None and before != x and self.later:
            self.known[source] = before = None
        if before is None or (self.at_once and x not in (0, 1)):
            return SizeInt.made(x, source, self.ints)
        return x


_NONE: frozenset[int] = frozenset()
_UNKNOWN = (None, _NONE)


def _any_marked(values: Any) -> bool:
    return any(isinstance(x, Tensor) and "_dynamo_dynamic_indices" in x.__dict__ for x in values)


def _names(function: Callable[..., Any], count: int) -> list[str | None]:
    """The names of a function's first arguments, as they are given by their places; None behind those that have one."""
    named = getattr(function, "forward", function)
    code = getattr(inspect.unwrap(getattr(named, "__func__", named)), "__code__", None)
    if code is None:
        return [None] * count
    names: list[str | None] = list(code.co_varnames[: code.co_argcount])
    if hasattr(named, "__self__"):
        del names[:1]
    return (names + [None] * count)[:count]
