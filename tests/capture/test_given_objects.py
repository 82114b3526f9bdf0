"""Arguments that are objects: taken by structure where each use makes them anew, let go, changed as the function does."""

from __future__ import annotations

import dataclasses
import gc
import types
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import flambeau as torch
from flambeau.base.flags import flags
from flambeau.capture.arguments import MOST_PARTS
from flambeau.capture.entry import MOST_KINDS, MOST_PINNING, Captured
from flambeau.codegen.runtime import guards

pytestmark = pytest.mark.skipif(not guards.available(), reason="this interpreter keeps objects otherwise than guards know")


@pytest.fixture(autouse=True, params=["replayed", "checked"])
def _how(request: pytest.FixtureRequest) -> Iterator[None]:
    before = flags.compile
    flags.compile = "check" if request.param == "checked" else before
    with torch.no_grad():
        yield
    flags.compile = before


def hits(captured: Captured) -> int:
    return sum(entry.hits for entries in captured.entries.values() for entry in entries)


class Layer:
    def __init__(self) -> None:
        self.keys: Any = None
        self.count = 0


class Cache:
    def __init__(self, layers: int = 2) -> None:
        self.layers = [Layer() for _ in range(layers)]
        self.table: dict[str, int] = {}


def grown(x: Any, cache: Any) -> Any:
    for layer in cache.layers:
        layer.keys = x if layer.keys is None else torch.cat([layer.keys, x])
        layer.count += 1
        x = layer.keys.sum() + x
        cache.table["last"] = layer.count
    return types.SimpleNamespace(x=x, cache=cache)


def _told(cache: Cache) -> Any:
    return [(layer.keys.tolist(), layer.count) for layer in cache.layers], cache.table


def test_caches_that_are_made_anew_are_replayed_changed_and_let_go() -> None:
    captured, caches = Captured(grown), []
    for n in range(6):
        plain, cache = Cache(), Cache()
        for step in range(4):
            x = torch.full((1,), float(n + step))
            made, wanted = captured(x, cache), grown(x, plain)
            assert made.cache is cache
            assert torch.equal(made.x, wanted.x)
            assert _told(cache) == _told(plain)
        caches += [weakref.ref(cache), weakref.ref(cache.layers[0])]
        del cache, made
    gc.collect()
    assert hits(captured) >= 8, captured.refusals
    assert not any(each() for each in caches)


def test_what_is_one_object_is_in_the_key() -> None:
    @dataclasses.dataclass(eq=False)
    class Box:
        k: float = 2.0

    for cls in (Box, Layer):

        def f(x: Any, a: Any, b: Any) -> Any:
            a.count = 5
            return x * getattr(b, "count", 1) + len({a, b}) + (7 if a == b else 11) + [a, b].count(b)

        captured = Captured(f)
        for n in range(12):
            a = cls()
            b = a if n % 3 == 0 else cls()
            c, d = (a, b) if n % 2 else (cls(), None)
            if d is None:
                d = c if a is b else cls()
            assert torch.equal(captured(torch.ones(2), a, b), f(torch.ones(2), c, d)), captured.refusals
        assert hits(captured) > 3, captured.refusals


def test_an_argument_may_come_to_be_in_the_surroundings() -> None:
    held = types.SimpleNamespace(layer=Layer())

    def of_argument(x: Any, layer: Any) -> Any:
        layer.count = 5
        return x * held.layer.count

    def of_surroundings(x: Any, layer: Any) -> Any:
        held.layer.count = 5
        return x * layer.count

    for f in (of_argument, of_surroundings):
        captured = Captured(f)
        for own in (False, False, False, False, False, True, False, True):
            held.layer.count = 0
            assert captured(torch.ones(1), held.layer if own else Layer()).item() == (5 if own else 0), captured.refusals
        assert hits(captured) > 1, captured.refusals


def test_an_argument_that_is_in_the_surroundings_is_equal_to_what_is_there() -> None:
    held, table, other = Layer(), dict[Any, int](), Layer()
    table[other] = 5
    for f in (
        lambda x, layer: x * (2 if layer == held else 3),
        lambda x, layer: x * (2 if layer in [held] else 3),
        lambda x, layer: x * table.get(layer, 3),
    ):
        captured = Captured(f)
        for own in (None, None, None, None, None, held, other, None, held):
            layer = Layer() if own is None else own
            assert captured(torch.ones(1), layer).item() == f(torch.ones(1), layer).item()
        assert hits(captured) > 2, captured.refusals


def test_objects_that_have_one_dict() -> None:
    def f(x: Any, a: Any, b: Any) -> Any:
        a.count = 5
        b.other = a.count
        return x * b.count

    captured = Captured(f)
    for n in range(12):
        a, b = Layer(), Layer()
        if n % 2:
            b.__dict__ = a.__dict__
        assert captured(torch.ones(1), a, b).item() == (5 if n % 2 else 0), captured.refusals
        assert (a.count, b.count, b.other, hasattr(a, "other")) == (5, 5 if n % 2 else 0, 5, bool(n % 2))  # type: ignore[attr-defined]
    assert hits(captured) > 6, captured.refusals


def test_an_attribute_that_is_another_one_is_another_call() -> None:
    def f(x: Any, cache: Any) -> Any:
        return x * (cache.layers[-1].count + 1) * len(vars(cache))

    captured = Captured(f)
    for n in (0, 0, 0, 0, 0, 1, 1, 0, 2):
        cache = Cache()
        cache.layers[-1].count = n
        assert captured(torch.ones(1), cache).item() == (n + 1) * 2
    cache.more = 1  # type: ignore[attr-defined]
    assert captured(torch.ones(1), cache).item() == 9
    assert hits(captured) > 1, captured.refusals


def test_arguments_by_identity_are_held_by_few_entries() -> None:
    captured, seen = Captured(lambda x, layer: layer(x)), []
    for _ in range(MOST_PINNING + 8):
        layer = torch.nn.Linear(2, 2)
        for _ in range(3):
            assert torch.equal(captured(torch.ones(2), layer), layer(torch.ones(2)))
        seen.append(weakref.ref(layer))
    del layer
    gc.collect()
    assert sum(each() is not None for each in seen) <= MOST_PINNING
    assert captured.entries


def test_what_has_too_many_parts_is_taken_by_identity() -> None:
    class Large:
        def __init__(self) -> None:
            self.parts = [[i] for i in range(MOST_PARTS + 1)]

    captured = Captured(lambda x, large: x * large.parts[1][0])
    first, second = Large(), Large()
    for _ in range(4):
        assert captured(torch.ones(1), first).item() == captured(torch.ones(1), second).item() == 1
    assert hits(captured) > 2, captured.refusals
    assert len(captured.pinning) == 2
    second.parts[1][0] = 3
    assert captured(torch.ones(1), second).item() == 3


def test_sizes_that_come_again_are_replayed_however_many_there_are() -> None:
    captured = Captured(lambda x: x * 2)
    for _ in range(3):
        captured(torch.ones(5))
    for n in range(MOST_KINDS + 20):
        captured(torch.ones(n + 10))
        captured(torch.ones(5))
    assert not captured.retired
    assert len(captured.calls) <= MOST_KINDS + 1
    assert hits(captured) > MOST_KINDS


def test_garbage_is_no_part_of_a_call() -> None:
    class Part:
        pass

    def gone(_: Any) -> None:
        called.append(1)

    called: list[int] = []
    refs = []
    captured = Captured(lambda x: x * len([[each] for each in range(3000)]))
    for _ in range(3):
        for _ in range(50):
            part = Part()
            part.me = part  # type: ignore[attr-defined]
            refs.append(weakref.ref(part, gone))
        del part
        captured(torch.ones(1))
    assert hits(captured) == 1, captured.refusals
    assert gc.isenabled()
