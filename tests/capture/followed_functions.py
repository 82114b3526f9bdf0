"""Functions and operators that are followed: each gives a function that is replayed, and what changes something it looked at."""

from __future__ import annotations

import abc
import collections
import copy
import copyreg
import dataclasses
import functools
import inspect
import itertools
import operator
import types
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.utils._pytree import tree_flatten, tree_map
from tests.capture.followed_objects import _Box

Made = tuple[Any, Any]  # a function of one tensor, and a change


def _held(**attributes: Any) -> Any:
    return types.SimpleNamespace(**attributes)


# ---------------------------------------------------------------- functions


def _signed(a: Any, b: float = 2.0, *c: Any, d: float = 3.0, **e: Any) -> Any:
    return a * b + d


def signatures() -> Made:
    def kept(a: Any, b: int = 2) -> None: ...

    def other(a: Any, b: int = 2, c: int = 3) -> None: ...

    def f(x: Any) -> Any:
        parameters = inspect.signature(kept).parameters
        return (
            x * len(parameters) * parameters["b"].default + len(set(parameters.keys())) + len(inspect.getfullargspec(kept).args)
        )

    return f, lambda: setattr(kept, "__code__", other.__code__) or setattr(kept, "__defaults__", (2, 3))


def signature_that_is_said() -> Made:
    def kept(a: Any) -> None: ...

    change = lambda: setattr(kept, "__signature__", inspect.signature(_signed))
    return lambda x: x * len(inspect.signature(kept).parameters), change


def signature_of_what_is_wrapped() -> Made:
    def kept(a: Any) -> None: ...

    def around(*args: Any) -> None: ...

    around.__wrapped__ = kept  # type: ignore[attr-defined]
    return lambda x: x * len(inspect.signature(around).parameters), lambda: setattr(around, "__wrapped__", _signed)


def list_as_a_default() -> Made:
    def kept(a: Any, b: list[int] = [2]) -> None: ...  # noqa: B006

    return lambda x: x * len(inspect.signature(kept).parameters["b"].default), lambda: kept.__defaults__[0].append(1)


def partials() -> Made:
    part = functools.partial(_signed, b=5.0)
    change = lambda: part.__setstate__((_signed, (), {"b": 6.0}, {}))  # type: ignore[attr-defined]
    return lambda x: part(x) + functools.partial(_signed, d=2.0)(x), change


def _wrapping(function: Any) -> Any:
    @functools.wraps(function)
    def around(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return around


def wrappers() -> Made:
    def kept(x: Any) -> Any:
        return x * 2

    outside = _wrapping(kept)

    def f(x: Any) -> Any:
        @_wrapping
        def inside(y: Any) -> Any:
            return y + 1

        return outside(x) + _wrapping(kept)(x) + inside(x) + len(inside.__name__)

    return f, lambda: setattr(kept, "__code__", (lambda x: x * 5).__code__)


def module_of_a_function() -> Made:
    def kept() -> None: ...

    return lambda x: x * len(kept.__module__) + len(kept.__doc__ or ""), lambda: setattr(kept, "__doc__", "text")


def what_lru_cache_keeps() -> Made:
    held = _held(k=2.0)

    @functools.lru_cache
    def kept(k: int) -> float:
        return held.k * k

    def change() -> None:
        held.k = 5.0
        kept.cache_clear()

    return lambda x: x * kept(3), change


def lru_cache_filled_anew() -> Made:
    f, change = what_lru_cache_keeps()
    (kept,) = (cell.cell_contents for cell in f.__closure__)

    def fill() -> None:
        change()
        for _ in range(50):  # as many misses as there were, and no fewer hits
            kept(3)

    return f, fill


def list_that_lru_cache_keeps() -> Made:
    kept = functools.lru_cache(lambda: [1.0])
    return lambda x: x * len(kept()), lambda: kept().append(2.0)


def closures() -> Made:
    held = _held(k=2)

    def f(x: Any) -> Any:
        total = 1

        def inner(y: Any, *, z: int = held.k) -> Any:
            nonlocal total
            total += 1
            return (lambda v, w=z: v * w)(y) + total

        return inner(x) + inner(x)

    return f, lambda: setattr(held, "k", 3)


def key_functions() -> Made:
    def key(n: int) -> int:
        return -n

    def f(x: Any) -> Any:
        return x * sorted([3, 1, 2], key=key)[0] + max([4, 7], key=key) + functools.reduce(lambda a, b: a - key(b), [1, 2])

    return f, lambda: setattr(key, "__code__", (lambda n: n * 2).__code__)


def generators() -> Made:
    numbers = [1, 2, 3]

    def each() -> Any:
        for n in numbers:
            if n:
                yield n

    def f(x: Any) -> Any:
        found = sum(each()) + sum(i * n for i, n in enumerate(each())) + sum(map(lambda a, b: a * b, each(), numbers))
        found += sum(filter(lambda n: n > 1, numbers)) + sum(filter(None, numbers)) + sum(a * b for a, b in zip(each(), numbers))
        return x * (found + (1 if all(n > 0 for n in each()) and any(n > 2 for n in numbers) else 2)) + {n: n for n in each()}[1]

    return f, lambda: numbers.append(9)


# ---------------------------------------------------------------- operators


class _Number:
    def __init__(self, k: int) -> None:
        self.k = k

    def __add__(self, other: Any) -> Any:
        return _Number(self.k + other) if isinstance(other, int) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return _Number(self.k + 10 * other)

    def __iadd__(self, other: Any) -> Any:
        return _Number(self.k + 100 * other)

    def __neg__(self) -> Any:
        return _Number(-self.k)

    def __eq__(self, other: object) -> Any:
        return self.k == other.k if isinstance(other, _Number) else NotImplemented

    def __lt__(self, other: Any) -> Any:
        return self.k < other.k

    def __bool__(self) -> bool:
        return self.k > 0

    def __iter__(self) -> Any:
        return iter([self.k, 1])

    def __str__(self) -> str:
        return "n" * self.k

    def __format__(self, form: str) -> str:
        return form + str(self)


class _Longer(_Number):
    def __len__(self) -> int:
        return self.k

    __bool__ = None  # type: ignore[assignment]
    del __bool__


def operators() -> Made:
    n = _Number(2)

    def f(x: Any) -> Any:
        m = n
        m += 1
        first, second = n
        k = (n + 3).k + (4 + n).k + m.k + (-n).k + first + second + sum([*n])
        k += 1 if n == _Number(2) else 0
        k += 2 if n != _Number(2) else 0
        k += 4 if n < _Number(3) else 0
        k += 8 if n > _Number(3) else 0
        k += 16 if n else 0
        k += 32 if not n else 0
        k += (n or _Number(64)).k + (n and _Number(128)).k
        return x * k + len(f"{n}{n!s}{n:ab}") + len(str(n)) + len(format(n, "c")) + (512 if bool(n) else 0)

    return f, lambda: setattr(n, "k", -1)


def method_of_an_operator() -> Made:
    class Kept:
        def __add__(self, other: Any) -> int:
            return 2

    kept = Kept()
    return lambda x: x * (kept + 1), lambda: setattr(Kept, "__add__", lambda self, other: 5)


def method_of_a_condition() -> Made:
    class Kept:
        def __len__(self) -> int:
            return 1

    kept = Kept()
    return lambda x: x * (2 if kept else 3), lambda: setattr(Kept, "__bool__", lambda self: False)


def operators_in_place() -> Made:
    held = _held(items=[2.0])

    def f(x: Any) -> Any:
        items, table, pair, kinds = [1.0], {"a": 1.0}, (1,), {1}
        items += held.items
        items *= 2
        table |= {"b": 3.0}
        pair += (2,)
        kinds |= {2}
        table["a"] += items[1]
        return x * sum(items) + sum(table.values()) + len(pair) + len(kinds)

    return f, lambda: held.items.append(5.0)


def lists_of_modules() -> Made:
    layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(4)])

    def f(x: Any) -> Any:
        for layer in layers[:2]:
            x = layer(x)
        more = nn.ModuleList()
        more += layers[2:]
        return more[0](x)

    return f, lambda: layers.__setitem__(1, nn.Linear(3, 3))


def arguments_by_stars() -> Made:
    more, named = [3.0], {"d": 4.0}
    return lambda x: _signed(x, *more, **named) + _signed(*[x, 2.0], d=5.0), lambda: named.update(d=6.0)


# ---------------------------------------------------------------- what C code gets of values


def fields_of_results() -> Made:
    held = _held(dim=0)

    def f(x: Any) -> Any:
        both = x.expand(2, 3) + torch.arange(2.0)[:, None]
        found = both.max(dim=held.dim)
        values, order = found.values.sort(descending=True)
        return found, values * 2, order, torch.linalg.qr(both).Q

    return f, lambda: setattr(held, "dim", 1)


def getters() -> Made:
    held = _held(pair=(2.0, {"a": 3.0}), inner=_held(k=5.0))
    first, both, deep = operator.itemgetter(0), operator.itemgetter(1, 0), operator.attrgetter("inner.k")
    return lambda x: (x * first(held.pair) * deep(held), both(held.pair)[0]["a"]), lambda: setattr(held.inner, "k", 7.0)


def elements_of_a_getter() -> Made:
    table = {"a": 2.0, "b": 3.0}
    return lambda x: x * operator.itemgetter("a")(table), lambda: table.update(a=5.0)


def iterators_of_itertools() -> Made:
    numbers = [1, 2, 3]

    def f(x: Any) -> Any:
        pairs = [a * b for a, b in itertools.combinations(numbers, 2)] + [a - b for a, b in itertools.pairwise(numbers)]
        return x * sum(pairs), list(itertools.permutations("ab")), [k for k, _ in zip(itertools.count(2), numbers)]

    return f, lambda: numbers.append(4)


def counts_of_elements() -> Made:
    words = ["a", "b", "a"]

    def f(x: Any) -> Any:
        counter = collections.Counter(words)
        counter.update("ab")
        return x * counter["a"]

    return f, lambda: words.append("a")


def generators_that_are_told() -> Made:
    held = _held(k=2.0)

    def running() -> Any:
        total = 0.0
        while True:
            total += yield total

    def f(x: Any) -> Any:
        sums = running()
        next(sums)
        sums.send(held.k)
        return x * sums.send(1.0)

    return f, lambda: setattr(held, "k", 3.0)


def hashes() -> Made:
    held = _held(key=(1, 2))
    return lambda x: x * (hash(held.key) % 7 + 1), lambda: setattr(held, "key", (1, 4))


def matches() -> Made:
    held = _held(command=["scale", {"by": 2.0, "more": (1, 2)}])

    def f(x: Any) -> Any:
        match held.command:
            case ["scale", {"by": k, **rest}, *others] if k > 1:
                return x * k * len(rest) + len(others)
            case [] | None:
                return x
            case ("scale", -1 | "one") as all_:
                return x * len(all_)
            case _:
                return x * 7

    return f, lambda: held.command[1].update(by=1.0)


def trees() -> Made:
    held = _held(tree={"a": [2.0, (3.0, None)], "b": (4.0,)})

    def f(x: Any) -> Any:
        made = tree_map(lambda k: x * k if k is not None else x, held.tree)
        leaves, _ = tree_flatten(made)
        return made, sum(leaves)

    return f, lambda: held.tree["a"].append(5.0)


def a_match_of_a_shape() -> Made:
    held = _held(k=2)

    def f(x: Any) -> Any:
        match x.shape, held.k:
            case (n,), k:
                return x * n * k
            case _:
                return x

    return f, lambda: setattr(held, "k", 3)


# ---------------------------------------------------------------- looks


def _abstract() -> Any:
    class Abstract(abc.ABC):
        @abc.abstractmethod
        def k(self) -> int: ...

    return Abstract


def abstract_classes() -> Made:
    abstract = _abstract()
    kept = _held(k=2)

    def f(x: Any) -> Any:
        known = isinstance(kept, abstract) or issubclass(int, abstract)
        return (
            x
            * (2 if known else 3)
            * (5 if isinstance([], collections.abc.Sequence) and isinstance(f, collections.abc.Callable) else 7)
        )

    return f, lambda: abstract.register(int)


def addresses() -> Made:
    held = _held(a=[1], b=[1])

    def f(x: Any) -> Any:
        known = {}
        for each, k in ((held.a, 2), ([], 3)):
            known[id(each)] = k
        return x * known.get(id(held.b), 5)

    return f, lambda: setattr(held, "b", held.a)


def copies() -> Made:
    held = _held(table={"a": [2.0]}, inner=_held(k=3.0))

    def f(x: Any) -> Any:
        deep, flat = copy.deepcopy(held), copy.copy(held)
        deep.table["a"].append(1.0)
        return x * deep.inner.k + sum(deep.table["a"]) + len(flat.table["a"]) + dataclasses.asdict(_Box(1.0))["scale"]

    return f, lambda: setattr(held.inner, "k", 4.0)


def copies_by_a_registered_function() -> Made:
    class Kept:
        k = 2.0

    kept = Kept()
    return lambda x: x * copy.copy(kept).k, lambda: copyreg.pickle(Kept, lambda _: (_held, (), {"k": 3.0}))  # type: ignore[arg-type, return-value]


def default_of_a_named_tuple() -> Made:
    pair = collections.namedtuple("pair", ["a", "b"], defaults=[2.0])
    return lambda x: x * pair(1.0).b, lambda: setattr(pair.__new__, "__defaults__", (3.0,))


def names_in_texts() -> Made:
    class Kept:
        pass

    kept = Kept()
    f = lambda x: x * len(f"{Kept}") + len(str([Kept])) + len(f"{type(kept).__name__}") + len("%s" % Kept)  # noqa: UP031
    return f, lambda: setattr(Kept, "__qualname__", "other") or setattr(Kept, "__name__", "longer_name")


def name_of_an_object_s_class() -> Made:
    class Kept:
        pass

    kept = Kept()
    return lambda x: x * len(f"{kept}"), lambda: setattr(Kept, "__qualname__", "K")


def dicts_of_objects() -> Made:
    held = _held(a=1, b=2)
    return lambda x: x * len(vars(held)) + sum(vars(held).values()), lambda: setattr(held, "c", 3)


def default_of_getattr() -> Made:
    held = _held(k=1)
    return lambda x: x * getattr(held, "absent", 3) * getattr(held, "k", 5), lambda: setattr(held, "absent", 7)


def parameters() -> Made:
    layer = nn.Linear(3, 3)

    def f(x: Any) -> Any:
        first = next(layer.parameters())
        return x.to(first.dtype) * sum(p.numel() for p in layer.parameters()) + len(dict(layer.named_parameters()))

    return f, lambda: layer.register_parameter("more", nn.Parameter(torch.ones(2)))


def compiled_functions_inside() -> Made:
    held = _held(k=2)
    inner = torch.compile(lambda x: x * held.k)
    return lambda x: inner(x) + 1, lambda: setattr(held, "k", 3)


OF_FUNCTIONS = [value for name, value in list(globals().items()) if getattr(value, "__annotations__", {}).get("return") == "Made"]
