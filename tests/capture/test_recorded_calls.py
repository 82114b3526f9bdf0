"""A recorded call gives what the function gives: frames, names, errors, the order and the life of objects are Python's own."""

from __future__ import annotations

import collections
import enum
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau.capture.entry import Captured
from flambeau.capture.recorder import Recorder
from flambeau.codegen.runtime import guards

pytestmark = pytest.mark.skipif(not guards.available(), reason="this interpreter keeps objects otherwise than guards know")

LEVEL = 4


def variables() -> Any:
    a = 2
    return sorted(locals()), "{a}".format(**locals()), sorted(dir()), sorted(vars()), a


def names_of_the_module() -> Any:
    return globals()["LEVEL"], eval("LEVEL + 1")


def frames() -> Any:
    def caller() -> str:
        return sys._getframe(1).f_code.co_name

    return sys._getframe().f_code.co_name, caller()


def modules_of_made_classes() -> Any:
    made = [collections.namedtuple("A", "a"), enum.Enum("B", "a"), typing.NewType("C", int), typing.TypeVar("D")]
    return [each.__module__ for each in made]


def names_of_inner_functions() -> Any:
    def inner() -> Any:
        return lambda: 0

    return inner.__qualname__, inner().__qualname__, (lambda: lambda: 0)().__qualname__


def getter_that_lacks_something() -> Any:
    class_ = _Falling()
    return class_.lacking, class_.unset, hasattr(_WriteOnly(), "value"), _WriteOnly().marked.v


class _Falling:
    __slots__ = ("unset",)

    @property
    def lacking(self) -> Any:
        raise AttributeError

    def __getattr__(self, name: str) -> str:
        return f"fell for {name}"


class _Marked:
    v = 3

    def __set__(self, o: Any, value: Any) -> None: ...


class _WriteOnly:
    value = property(None, lambda self, value: None)
    marked = _Marked()


def ends_of_iterators() -> Any:
    return list(map(next, [iter([1]), iter([]), iter([2])]))


def wrong_calls() -> Any:
    class_ = _Returning
    return [_error(each) for each in (lambda: {}.get(), lambda: class_(), lambda: map(int), lambda: map())]


class _Returning:
    def __init__(self) -> None:
        return 1  # type: ignore[return-value]


def _error(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def lives_of_objects() -> Any:
    log: list[str] = []
    made = _Logged
    table, kept = {"x": made(log)}, types.SimpleNamespace()
    table["x"] = None  # type: ignore[assignment]
    log.append("an entry")
    kept.a = made(log)
    kept.a = 2
    log.append("an attribute")
    (kept.b, kept.c), kept.d = (1, made(log)), 3
    kept.c = None
    log.append("a part of a tuple")
    for kept.e in [made(log), 5]:
        pass
    log.append("a loop")
    kept.f = kept.g = made(log)
    kept.f = kept.g = None
    log.append("two places")
    return log


class _Logged:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __del__(self) -> None:
        self.log.append("gone")


def first_argument_of_an_inner_function() -> Any:
    return _Derived().method(_Derived("other"))


class _Base:
    def __init__(self, name: str = "own") -> None:
        self.name = name

    def shown(self) -> str:
        return self.name


class _Derived(_Base):
    def method(self, other: Any) -> Any:
        def inner(that: Any) -> Any:
            return super().shown()  # type: ignore[misc]

        return inner(other)


@torch.inference_mode()
def _in_inference_mode(x: Any) -> Any:
    return x * 2


def decorated_with_a_mode() -> Any:
    return _in_inference_mode(torch.ones(2)).is_inference()


@torch.no_grad()
def _without_grad(x: Any) -> Any:
    return x * 2


def decorated_with_no_grad() -> Any:
    return _without_grad(torch.ones(2, requires_grad=True)).requires_grad


def test_what_no_grad_decorates_is_replayed_without_gradients() -> None:
    weight = torch.ones(2, requires_grad=True)
    scale = [2]
    decorated = torch.no_grad()(lambda x: x * weight * scale[0])
    captured = Captured(lambda x: decorated(x) + 1)
    for _ in range(4):
        made = captured(torch.ones(2))
        assert made.tolist() == [3, 3]
        assert not made.requires_grad
    assert [entry.hits for entries in captured.entries.values() for entry in entries] == [2]
    assert torch.is_grad_enabled()
    scale[0] = 3
    assert captured(torch.ones(2)).tolist() == [4, 4]


@pytest.mark.parametrize(
    "function",
    [
        variables,
        names_of_the_module,
        frames,
        modules_of_made_classes,
        names_of_inner_functions,
        getter_that_lacks_something,
        ends_of_iterators,
        wrong_calls,
        lives_of_objects,
        first_argument_of_an_inner_function,
        decorated_with_a_mode,
        decorated_with_no_grad,
    ],
    ids=lambda function: function.__name__,
)
def test_a_recorded_call_is_the_functions_own(function: Callable[[], Any]) -> None:
    plain = function()
    assert Recorder().run(function, (), {}) == plain
    captured = Captured(function)
    assert [captured() for _ in range(4)] == [plain] * 4


def test_an_argument_may_have_any_name() -> None:
    captured = Captured(lambda x, self: x * self)
    assert [captured(torch.ones(1), self=2).item() for _ in range(4)] == [2] * 4
