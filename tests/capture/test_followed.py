"""What capture follows is replayed, and never stale: each is called, what it looked at changes, and it is called again."""

from __future__ import annotations

import copy
import dataclasses
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import flambeau as torch
from flambeau.capture.entry import Captured
from flambeau.codegen.runtime import guards
from flambeau.core.modes.modes import local
from tests.capture.followed_functions import OF_FUNCTIONS
from tests.capture.followed_objects import OF_OBJECTS, _Box, _Fields, _Frozen

pytestmark = pytest.mark.skipif(not guards.available(), reason="this interpreter keeps objects otherwise than guards know")


@pytest.fixture(autouse=True)
def _in_a_compiled_call() -> Iterator[None]:
    before, local.exporting = local.exporting, "dynamo"
    with torch.no_grad():
        yield
    local.exporting = before


def _shown(value: Any, seen: tuple[Any, ...] = ()) -> Any:
    """A value as text: classes, numbers of tensors, attributes; what is part of itself by its depth."""
    if isinstance(value, torch.Tensor):
        return value.tolist(), str(value.dtype), value.requires_grad, value.is_inference()
    if any(value is each for each in seen):
        return "itself"
    seen = (*seen, value)
    parts: list[Any] = [type(value).__qualname__]
    if isinstance(value, dict):
        parts += [(key, _shown(each, seen)) for key, each in value.items()]
    elif isinstance(value, (list, tuple)):
        parts += [_shown(each, seen) for each in value]
    elif dataclasses.is_dataclass(value):
        parts += [(field.name, _shown(getattr(value, field.name), seen)) for field in dataclasses.fields(value)]
    elif not hasattr(value, "__dict__"):
        parts.append(repr(value))
    return [*parts, *((name, _shown(each, seen)) for name, each in getattr(value, "__dict__", {}).items())]


def hits(captured: Captured) -> int:
    return sum(entry.hits for entries in captured.entries.values() for entry in entries)


@pytest.mark.parametrize("make", [*OF_OBJECTS, *OF_FUNCTIONS], ids=lambda make: make.__name__)
def test_constructs_are_replayed_and_never_stale(make: Callable[[], Any]) -> None:
    function, change = make()
    captured = Captured(function, "dynamo")
    x = torch.arange(1.0, 4.0)
    function(x)
    for _ in range(4):
        before = _shown(function(x))
        assert _shown(captured(x)) == before, captured.refusals
    assert hits(captured) == 2, captured.refusals
    change()
    changed = _shown(function(x))
    assert changed != before
    for _ in range(3):
        assert _shown(captured(x)) == changed, captured.refusals


def test_a_flag_of_the_module_is_set_by_the_call_that_finds_it_unset() -> None:
    global _warned

    def f(x: Any) -> Any:
        global _warned
        if not _warned:
            _warned = True
            return x * 3
        return x * 2

    captured = Captured(f, "dynamo")
    for unset in (True, False, False, False, True, True, False, True, False):
        _warned = not unset
        assert captured(torch.ones(2)).tolist() == [3 if unset else 2] * 2
        assert _warned
    assert hits(captured) > 3


_warned = False


@pytest.mark.parametrize(
    "make",
    [
        lambda k, x: _Fields(x, k),
        lambda k, x: _Box(x, k, [k]),
        lambda k, x: _Frozen({"a": [x]}, k),
        lambda k, x: [(x, {"b": _Fields(_Box(x), k)})],
    ],
    ids=["named tuple", "dataclass", "frozen dataclass", "tree"],
)
def test_arguments_are_trees_of_values(make: Callable[[float, Any], Any]) -> None:
    def leaves(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value
        if isinstance(value, (float, int, str)):
            return value if isinstance(value, float) else 0
        if isinstance(value, dict):
            return sum(leaves(each) for each in value.values())
        if isinstance(value, (list, tuple)):
            return sum(leaves(each) for each in value)
        return sum(leaves(each) for each in vars(value).values())

    captured = Captured(leaves, "dynamo")
    for k in (2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 2.0):
        x = torch.randn(3)
        assert torch.equal(captured(make(k, x)), leaves(make(k, x))), captured.refusals
    assert hits(captured) == 4, captured.refusals


def test_augmented_assignments_raise_errors_of_their_own() -> None:
    class Asked:
        def __init__(self) -> None:
            self.times = 0

        def __iadd__(self, other: Any) -> Any:
            self.times += 1
            return NotImplemented

    def f(x: Any) -> Any:
        told = []
        for each in (1, "a", (1,), [1], None, _Box(1)):
            try:
                each += 1
            except TypeError as error:
                told.append(str(error))
        asked = Asked()
        try:
            asked += 1
        except TypeError:
            told.append(str(asked.times))
        return x * 2, told

    captured = Captured(f, "dynamo")
    for _ in range(4):
        assert captured(torch.ones(2))[1] == f(torch.ones(2))[1]
    assert hits(captured) == 2, captured.refusals


def test_what_is_shared_in_a_copy_is_shared() -> None:
    part = ([1.0],)
    within: Any = []
    within.append((within,))
    held = types.SimpleNamespace(parts=[part, part], within=within)

    def f(x: Any) -> Any:
        parts, within = copy.deepcopy(held.parts), copy.deepcopy(held.within)
        return x * 2, parts[0] is parts[1], within[0][0] is within

    captured = Captured(f, "dynamo")
    for _ in range(4):
        assert captured(torch.ones(2))[1:] == (True, True), captured.refusals
    assert hits(captured) == 2, captured.refusals


def test_an_argument_that_is_changed_is_changed_by_every_call() -> None:
    def f(box: Any) -> Any:
        box.scale += 1.0
        box.parts.append(box.scale)
        return box.value * box.scale

    captured = Captured(f, "dynamo")
    for _ in range(4):
        box = _Box(torch.ones(2), 2.0)
        assert captured(box).tolist() == [3, 3]
        assert (box.scale, box.parts) == (3.0, [3.0])
    assert hits(captured) == 0


def test_a_variable_of_the_surroundings_is_set_by_every_call() -> None:
    total, own = 0, globals()
    own["_calls"] = 0

    def counting(x: Any) -> Any:
        nonlocal total
        total += 1
        return x * 2

    def noting(x: Any) -> Any:
        global _last
        _last = x * 2  # type: ignore[name-defined]
        return x

    first, second = Captured(counting, "dynamo"), Captured(noting, "dynamo")
    for n in range(5):
        x = torch.full((2,), float(n))
        first(x)
        second(x)
        assert total == n + 1
        assert own["_last"].tolist() == [2 * n] * 2
    assert hits(first) == 0
    assert hits(second) == 3, second.refusals


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 2, id([])),
        lambda x: x * (id(x) % 7),
        lambda x: (x * 2, f"{object()}"),
        lambda x: (x * 2, str([lambda: 0])),
        lambda x: x * (2 if id(x) in {id([]): 1} else 3) + len({id(x)} & {1}),
    ],
    ids=["address", "computed", "object", "function", "set"],
)
def test_addresses_that_are_others_in_every_call_are_no_part_of_a_result(function: Callable[[Any], Any]) -> None:
    captured = Captured(function, "dynamo")
    for _ in range(4):
        captured(torch.ones(2))
    assert hits(captured) == 0


def test_results_of_another_inference_mode_keep_it() -> None:
    def f(x: Any) -> Any:
        with torch.inference_mode():
            return x * 2

    captured = Captured(f, "dynamo")
    assert all(captured(torch.ones(2)).is_inference() for _ in range(4))


def test_errors_of_operators_are_python_s_own() -> None:
    class Odd:
        def __bool__(self) -> Any:
            return 1

        def __len__(self) -> int:
            return -1

        def __add__(self, other: Any) -> Any:
            return NotImplemented

        def __str__(self) -> Any:
            return 1

        __lt__ = __add__

    odd = Odd()
    wrong: list[Callable[[], Any]] = [
        lambda: 1 if odd else 2,
        lambda: odd + 1,
        lambda: odd < 1,
        lambda: f"{odd}",
        lambda: len(odd),
        lambda: [*odd],
        lambda: vars(3),
        lambda: -odd,
    ]

    def told(call: Callable[[], Any]) -> str:
        try:
            return repr(call())
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def each(x: Any) -> list[str]:
        return [told(call) for call in wrong]

    plain, captured = each(None), Captured(each, "dynamo")
    for _ in range(3):
        assert captured(torch.ones(1)) == plain


def test_views_among_results_are_views_of_what_they_are_views_of() -> None:
    weight, numbers = torch.arange(6.0).view(2, 3), torch.arange(10.0)

    def f(x: Any) -> Any:
        return x[1:], x.detach(), (x * 2).view(1, -1), weight[1], x + 1

    captured = Captured(f, "dynamo")
    for n in range(6):
        x = numbers[n : n + 3] if n % 2 else torch.ones(3)
        mine, plain = captured(x), f(x)
        assert [y._is_view() for y in mine] == [y._is_view() for y in plain]
        assert [mine[i]._base is plain[i]._base for i in (0, 1, 3, 4)] == [True] * 4
        assert mine[0]._base is not None
        assert mine[2]._base.tolist() == (x * 2).tolist()
        mine[2].zero_()
        assert mine[2]._base.tolist() == [0, 0, 0]
    assert hits(captured) == 4
