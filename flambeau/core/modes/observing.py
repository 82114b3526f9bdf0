"""Observers: who sees the calls of public functions in a thread without answering any: the profiler, the log of operators,
graphs for TensorBoard.

While one is on, public functions look for it as for a mode (core.modes.interception). It stands below modes of
`__torch_function__` and overriding classes, and above modes below autograd: it sees what is about to be computed. The engine
tells it which node's turn it is, and `stretch` what a program calls a part of itself. Without one, nothing is asked.
Stands on core.modes.interception; used by flambeau.profiler, op_log, autograd's Functions, optimizers, data loaders.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

from flambeau.core.modes.interception import Attention, answered
from flambeau.core.modes.modes import local, observed

__all__ = ["Given", "Observer", "settle", "stretch", "transformed"]

Function = TypeVar("Function", bound=Callable[..., Any])


class Given(NamedTuple):
    """What a stretch of the program says that it is given, and whether it stands for an operator."""

    values: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = {}
    is_operator: bool = False


class Observer:
    """Sees the calls of this thread inside `with observer:`; what is on around it sees them as well."""

    outer: Observer | None = None
    _attention: Attention | None = None

    def __enter__(self) -> Any:
        self._attention = Attention()
        self.outer, local.observer = local.observer, self
        observed.enter()
        return self

    def __exit__(self, *exception: object) -> None:
        self._attention = None
        observed.leave()
        if local.observer is self:
            local.observer = self.outer
            return
        above = local.observer  # one that was entered later is still on
        while above is not None and above.outer is not self:
            above = above.outer
        if above is not None:
            above.outer = self.outer

    def called(self, function: FunctionType, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A public function is called; `own` is the function as it is while nobody looks. Gives the result of `go_on`."""
        return self.go_on(function, own, args, kwargs)

    def go_on(self, function: FunctionType, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call's result, by the observer around this one, then by whoever answers."""
        if self.outer is not None:
            return self.outer.called(function, own, args, kwargs)
        return answered(function, own, args, kwargs)

    def alone(self, function: FunctionType, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call's result, without the calls inside it being seen here."""
        local.observer = self.outer
        try:
            return self.go_on(function, own, args, kwargs)
        finally:
            local.observer = self

    def operator(self, name: str, call: Callable[..., Any], *args: Any) -> Any:
        """An operator that a program defines, "ns::name", is called: gives call(*args)."""
        return call(*args) if self.outer is None else self.outer.operator(name, call, *args)

    def higher_order(self, name: str, answer: Callable[[], Any], function: Callable[[], Any], given: Any, settings: Any) -> Any:
        """torch.ops.higher_order's operator `name`, or what PyTorch has one for, is called with a function: gives answer().

        function() runs the function on the tensors `given`; settings: keyword arguments of the operator.
        """
        return answer() if self.outer is None else self.outer.higher_order(name, answer, function, given, settings)

    def transform(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function that torch.func made by a transform is called: gives function(*args, **kwargs)."""
        return function(*args, **kwargs) if self.outer is None else self.outer.transform(function, args, kwargs)

    def begin(self, name: str, given: Given | None = None) -> Callable[[], None] | None:
        """A stretch of the program begins, and what it says that it is given; gives what ends it."""
        return None if self.outer is None else self.outer.begin(name, given)

    def used_elsewhere(self, function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A thread that nobody observes calls a function; told to those in modes.deferring, before the call."""

    def settle(self) -> None:
        """Compute what calls were answered with, if that was put off: somebody looks past public functions."""
        if self.outer is not None:
            self.outer.settle()

    def set_aside(self) -> Observer | None:
        """See nothing for a while, if that is to be: `put_aside`."""
        return None

    def evaluates(self, node: Any) -> None:
        """The engine turns to a node of the graph; None: it has come to its end."""
        if self.outer is not None:
            self.outer.evaluates(node)

    def applies(self, node: Any, call: Callable[..., Any], *args: Any) -> Any:
        """The engine applies the node: gives call(*args)."""
        return call(*args) if self.outer is None else self.outer.applies(node, call, *args)


def transformed(function: Function) -> Function:
    """Decorator of functions that a transform made: this thread's observer, if one is on, is told of calls."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if observed.count and local.observer is not None:
            return local.observer.transform(function, args, kwargs)
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def aside(name: str) -> Callable[[], None] | None:
    """Tells this thread's observer, if one is on, of something that goes on beside the program: what to call at its end."""
    return local.observer.aside(name) if observed.count and local.observer is not None else None


def settle() -> None:
    """To be called before something looks at tensors, or at state that operators use, past the public functions."""
    if observed.count and local.observer is not None:
        local.observer.settle()


def put_aside() -> Observer | None:
    """The same before a part of the program that works on tensors so all the while. Gives the observer that sees nothing until
    `local.observer` is set to it again; None if there is none that puts anything off.
    """
    return local.observer.set_aside() if observed.count and local.observer is not None else None


class stretch:
    """Context: a part of the program that observers see under a name."""

    __slots__ = ("end", "given", "name")

    def __init__(self, name: str, given: Given | None = None) -> None:
        self.name, self.given = name, given
        self.end: Callable[[], None] | None = None

    def __enter__(self) -> stretch:
        if observed.count and local.observer is not None:
            self.end = local.observer.begin(self.name, self.given)
        return self

    def __exit__(self, *exception: object) -> None:
        if self.end is not None:
            self.end()
            self.end = None
