"""Looks at the surroundings that are easily missed: each function is called, something changes, and it is called again."""

from __future__ import annotations

import abc
import enum
import operator
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import flambeau as torch
from flambeau.capture.entry import MOST_KINDS, Captured
from flambeau.codegen.runtime import guards
from tests.capture.changing_objects import OF_OBJECTS

pytestmark = pytest.mark.skipif(not guards.available(), reason="this interpreter keeps objects otherwise than guards know")


@pytest.fixture(autouse=True)
def _without_gradients() -> Any:
    with torch.no_grad():
        yield


class Look(NamedTuple):
    """A function; its arguments in four calls, then in two after something changed; what changes, and what undoes it."""

    function: Callable[..., Any]
    before: Callable[[], tuple[Any, ...]] = lambda: (torch.ones(3),)
    change: Callable[[], Any] = lambda: None
    after: Callable[[], tuple[Any, ...]] = lambda: (torch.ones(3),)
    undo: Callable[[], Any] = lambda: None


def unset_slot() -> Look:
    class Slotted:
        __slots__ = ("value",)

    held = Slotted()
    return Look(lambda x: x * (2 if hasattr(held, "value") else 3), change=lambda: setattr(held, "value", 1))


def absent_global_of_a_module() -> Look:
    module = sys.modules["_looked_at"] = types.ModuleType("_looked_at")
    return Look(lambda x: x * (2 if hasattr(module, "flag") else 3), change=lambda: setattr(module, "flag", 1))


def attribute_of_a_method() -> Look:
    class Kept:
        def method(self) -> None: ...

    kept = Kept()
    return Look(lambda x: x * (2 if getattr(kept.method, "flag", 0) else 3), change=lambda: setattr(Kept.method, "flag", 1))


def attribute_of_a_function() -> Look:
    def other() -> None: ...

    return Look(lambda x: x * getattr(other, "scale", 1), change=lambda: setattr(other, "scale", 5))


def attribute_of_a_member() -> Look:
    class Color(enum.Enum):
        RED = 1

    return Look(lambda x: x * getattr(Color.RED, "scale", 1), change=lambda: setattr(Color.RED, "scale", 5))


def exchanged_method_of_tensors() -> Look:
    own = torch.Tensor.relu
    change = lambda: setattr(torch.Tensor, "relu", lambda self: self * 7)
    return Look(lambda x: x.relu() + x, change=change, undo=lambda: setattr(torch.Tensor, "relu", own))


def exchanged_operator_of_tensors() -> Look:
    own = torch.Tensor.__add__
    change = lambda: setattr(torch.Tensor, "__add__", lambda self, other: self * 7)
    return Look(lambda x: x + 1, change=change, undo=lambda: setattr(torch.Tensor, "__add__", own))


def exchanged_code_of_an_operator() -> Look:
    function, code = torch.flipud, torch.flipud.__code__

    def other(input: Any) -> Any:
        return input * 3

    x = torch.arange(3.0)
    return Look(
        lambda x: torch.flipud(x),
        lambda: (x,),
        lambda: setattr(function, "__code__", other.__code__),
        lambda: (x,),
        lambda: setattr(function, "__code__", code),
    )


def argument_that_is_in_the_surroundings() -> Look:
    held = types.SimpleNamespace(weight=torch.full((3,), 2.0))
    return Look(lambda x: x * 2 + held.weight, lambda: (held.weight,))


def argument_in_memory_of_the_surroundings() -> Look:
    held = types.SimpleNamespace(weight=torch.full((3,), 2.0))
    return Look(lambda x: x * 2 + held.weight, lambda: (held.weight.view(3),))


def argument_that_comes_to_be_in_the_surroundings() -> Look:
    held = types.SimpleNamespace(weight=torch.full((3,), 2.0))
    return Look(lambda x: (x * 2 + held.weight, x is held.weight), after=lambda: (held.weight,))


def containers_by_identity() -> Look:
    mine = [1.0]
    return Look(
        lambda x, y, z: x * (2 if y is z else 3), lambda: (torch.ones(3), mine, [1.0]), after=lambda: (torch.ones(3), mine, mine)
    )


def a_default_by_identity() -> Look:
    default = [1.0]
    return Look(
        lambda x, y: x * (2 if y is default else 3), lambda: (torch.ones(3), default), after=lambda: (torch.ones(3), [1.0])
    )


def identity_by_a_function() -> Look:
    held = types.SimpleNamespace(weight=torch.ones(3))
    return Look(lambda x: x * (2 if operator.is_(x, held.weight) else 3), after=lambda: (held.weight,))


def tensors_in_a_container() -> Look:
    held = [torch.ones(1)]
    same = lambda: (held[0],)
    return Look(lambda x: x * (2 if x in held else 3), same, after=lambda: (torch.zeros(1),))


def lists_of_tensors_compared() -> Look:
    held = [torch.ones(1)]
    return Look(lambda x: x * (2 if [x] == held else 3), lambda: (held[0],), after=lambda: (torch.zeros(1),))


_ROW = torch.arange(10.0)


def place_in_a_storage() -> Look:
    return Look(lambda x: x * x.storage_offset(), lambda: (_ROW[:3],), after=lambda: (_ROW[2:5],))


def absolute_places() -> Look:
    return Look(lambda x: x.as_strided((2,), (1,), 0) + 0, lambda: (_ROW[:3],), after=lambda: (_ROW[2:5],))


def whether_it_is_a_view() -> Look:
    return Look(lambda x: (x + 1, x._is_view(), x._base is None), after=lambda: (_ROW[2:5],))


def sign_of_a_complex_zero() -> Look:
    held = types.SimpleNamespace(value=complex(0, 0.0))
    return Look(lambda x: x * held.value, change=lambda: setattr(held, "value", complex(0, -0.0)))


def registered_class() -> Look:
    class Abstract(abc.ABC):  # noqa: B024
        pass

    class Other:
        pass

    return Look(lambda x: x * (2 if issubclass(Other, Abstract) else 3), change=lambda: Abstract.register(Other))


def iterator_of_the_surroundings() -> Look:
    numbers = iter(range(100))
    return Look(lambda x: x + next(numbers) * 0 + sum(1 for _ in [numbers]))


LOOKS = [value for value in list(globals().values()) if getattr(value, "__annotations__", {}).get("return") == "Look"]


def _shown(value: Any) -> Any:
    return (value.tolist(), value.dtype) if isinstance(value, torch.Tensor) else value


def _outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    made = function(*args)
    return repr([_shown(x) for x in made] if isinstance(made, tuple) else _shown(made))


@pytest.mark.parametrize("make", [*LOOKS, *OF_OBJECTS], ids=lambda make: make.__name__)
def test_what_has_changed_is_seen(make: Callable[[], Any]) -> None:
    look = Look(*make())
    captured = Captured(look.function)
    try:
        for _ in range(4):
            args = look.before()
            assert _outcome(captured, args) == _outcome(look.function, args)
        look.change()
        for _ in range(2):
            args = look.after()
            assert _outcome(captured, args) == _outcome(look.function, args), captured.refusals
    finally:
        look.undo()


def test_arguments_that_are_always_others_leave_nothing_behind() -> None:
    captured = Captured(lambda x, k: x * k)
    for i in range(MOST_KINDS + 10):
        assert captured(torch.ones(1), float(i)).item() == i
    assert captured.retired
    assert not captured.calls
    assert not captured.entries
