"""Contexts and objects that are followed: each gives a function that is replayed, and what changes something it looked at."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import dataclasses
import enum
import threading
import types
from typing import Any, NamedTuple

import flambeau as torch

Made = tuple[Any, Any]  # a function of one tensor, and a change


def _held(**attributes: Any) -> Any:
    return types.SimpleNamespace(**attributes)


# ---------------------------------------------------------------- contexts


def modes() -> Made:
    held = _held(k=2, mode=torch.no_grad)

    def f(x: Any) -> Any:
        with torch.enable_grad(), torch.set_grad_enabled(False), held.mode():
            y = x * held.k
            inner = torch.is_grad_enabled()
        with torch.inference_mode(), torch.autocast("cpu", enabled=False):
            z = y.sum()
        return y * z.item() if inner else y + z.clone() * 0

    return f, lambda: setattr(held, "mode", torch.enable_grad)


def autocast() -> Made:
    held = _held(dtype=torch.bfloat16)

    def f(x: Any) -> Any:
        with torch.autocast("cpu", dtype=held.dtype):
            return x.view(1, 3) @ x.view(3, 1)

    return f, lambda: setattr(held, "dtype", torch.float16)


def autocast_of_the_surroundings() -> Made:
    context = torch.autocast("cpu", dtype=torch.bfloat16)

    def f(x: Any) -> Any:
        with context:
            return x.view(1, 3) @ x.view(3, 1)

    return f, lambda: setattr(context, "fast_dtype", torch.float16)


def decorated_by_autocast() -> Made:
    held = _held(k=2)

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def inner(x: Any) -> Any:
        return x.view(1, 3) @ x.view(3, 1) * held.k

    return lambda x: inner(x), lambda: setattr(held, "k", 3)


def decorated_by_a_mode_inside() -> Made:
    held = _held(k=2)

    def f(x: Any) -> Any:
        @torch.no_grad()
        def inner(y: Any) -> Any:
            return y * held.k

        return inner(x)

    return f, lambda: setattr(held, "k", 3)


@contextlib.contextmanager
def _scaled(k: float) -> Any:
    yield k * 2


def managers() -> Made:
    held = _held(context=contextlib.nullcontext(2.0))

    def f(x: Any) -> Any:
        with contextlib.ExitStack() as stack:
            k = stack.enter_context(_scaled(2.0))
            with held.context as n, contextlib.suppress(KeyError):
                return x * k * n

    return f, lambda: setattr(held, "context", contextlib.nullcontext(5.0))


def variable_of_a_context() -> Made:
    variable: contextvars.ContextVar[float] = contextvars.ContextVar("variable", default=2.0)

    def f(x: Any) -> Any:
        before = variable.get()
        token = variable.set(5.0)
        try:
            return x * before + variable.get()
        finally:
            variable.reset(token)

    return f, lambda: variable.set(3.0)


def attribute_of_a_thread() -> Made:
    local = threading.local()
    local.k = 2
    return lambda x: x * local.k, lambda: setattr(local, "k", 3)


# ---------------------------------------------------------------- objects


@dataclasses.dataclass
class _Box:
    value: Any
    scale: float = 2.0
    parts: list[float] = dataclasses.field(default_factory=list)
    after: dataclasses.InitVar[int] = 1

    def __post_init__(self, after: int) -> None:
        self.doubled = self.scale * 2 + after


@dataclasses.dataclass(frozen=True)
class _Frozen:
    value: Any
    scale: float = 2.0
    parts: list[float] = dataclasses.field(default_factory=lambda: [1.0])


@dataclasses.dataclass(slots=True)
class _Slots:
    value: Any
    scale: float = 2.0


class _Fields(NamedTuple):
    value: Any
    scale: float = 2.0


def dataclasses_made_inside() -> Made:
    held = _held(scale=3.0)

    def f(x: Any) -> Any:
        box = _Box(x * 2, held.scale)
        box.parts.append(1.0)
        frozen = dataclasses.replace(_Frozen(box), scale=held.scale)
        return box, frozen, _Slots(frozen), len(dataclasses.fields(_Box)), _Box(1, parts=[3.0]) == _Box(1, parts=[3.0])

    return f, lambda: setattr(held, "scale", 4.0)


def method_of_a_dataclass() -> Made:
    @dataclasses.dataclass
    class Kept:
        value: float

        def __post_init__(self) -> None:
            self.scale = 2.0

    def after(self: Any) -> None:
        self.scale = 7.0

    return lambda x: x * Kept(3.0).scale, lambda: setattr(Kept, "__post_init__", after)


def default_of_a_dataclass() -> Made:
    @dataclasses.dataclass
    class Kept:
        value: float = 2.0

    return lambda x: x * Kept().value, lambda: setattr(Kept.__init__, "__defaults__", (5.0,))


def factory_of_a_dataclass() -> Made:
    numbers = [2.0]

    @dataclasses.dataclass
    class Kept:
        values: list[float] = dataclasses.field(default_factory=lambda: list(numbers))

    return lambda x: x * Kept().values[0], lambda: numbers.__setitem__(0, 5.0)


def named_tuples() -> Made:
    held = _held(pair=_Fields(2.0, 3.0))

    def f(x: Any) -> Any:
        made = _Fields(x * held.pair.scale)._replace(scale=held.pair.value)
        return made, made._asdict()

    return f, lambda: setattr(held, "pair", _Fields(5.0, 6.0))


class _Output(collections.OrderedDict):
    def __init__(self, **values: Any) -> None:
        super().__init__()
        for name, value in values.items():
            self[name] = value

    def __setitem__(self, name: Any, value: Any) -> None:
        super().__setitem__(name, value)
        super().__setattr__(name, value)


class _Row(list):
    def __init__(self, values: Any) -> None:
        super().__init__(values)
        self.size = len(self)


def containers_of_own_classes() -> Made:
    held = _held(k=2.0)

    def f(x: Any) -> Any:
        out, row = _Output(first=x * held.k, second=None), _Row([x, held.k])
        return out, row, collections.defaultdict(list, a=[row]), _held(out=out)

    return f, lambda: setattr(held, "k", 3.0)


def initializer_of_a_container() -> Made:
    class Row(list):
        def __init__(self, values: Any) -> None:
            super().__init__(values)

    def other(self: Any, values: Any) -> None:
        list.__init__(self, [5.0])

    return lambda x: x * Row([2.0])[0], lambda: setattr(Row, "__init__", other)


def one_object_in_two_places() -> Made:
    held = _held(k=2.0)

    def f(x: Any) -> Any:
        box = _held(items=[x * held.k])
        box.me = box
        return box.items is box.me.items, box.me.items[0], [box.items, box.items]

    return f, lambda: setattr(held, "k", 3.0)


class _Maker:
    def __new__(cls, k: float) -> Any:
        made = super().__new__(cls)
        made.first = k
        return made

    def __init__(self, k: float) -> None:
        self.second = k


def constructors() -> Made:
    held = _held(k=2.0)
    return lambda x: x * _Maker(held.k).first + _Maker(1.0).second, lambda: setattr(held, "k", 3.0)


def errors_made_inside() -> Made:
    held = _held(k=2)

    def f(x: Any) -> Any:
        try:
            raise ValueError(held.k)
        except ValueError as error:
            return x * error.args[0] * len(str(error))

    return f, lambda: setattr(held, "k", 33)


# ---------------------------------------------------------------- members


class _Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class _Word(str, enum.Enum):  # noqa: UP042 - as libraries have them
    A = "a"
    B = "b"


class _Bits(enum.Flag):
    A = 1
    B = 2


def members() -> Made:
    held = _held(color=_Color.RED, word="a", bits=_Bits.A)

    def f(x: Any) -> Any:
        k = 2 if held.color == _Color.RED and _Color("red") in (_Color.RED,) and _Color["RED"] is held.color else 3
        k += 5 if _Word(held.word) == _Word.A else 7
        k += 11 if held.bits & (_Bits.A | _Bits.B) else 13
        table = {_Color.RED: 1.0, _Color.BLUE: 2.0}
        return x * k * table[held.color] + len(_Color) + len(f"{held.color}{held.color.name}{held.color.value}")

    return f, lambda: setattr(held, "color", _Color.BLUE)


def value_of_a_member() -> Made:
    class Kept(enum.Enum):
        A = 2

    return lambda x: x * Kept.A.value, lambda: setattr(Kept.A, "_value_", 5)


def attribute_by_a_metaclass() -> Made:
    class Meta(type):
        k = 2

        def __getattr__(cls, name: str) -> int:
            return cls.k

    class Kept(metaclass=Meta):
        pass

    return lambda x: x * Kept.absent, lambda: setattr(Meta, "k", 3)


def call_by_a_metaclass() -> Made:
    held = _held(k=2)

    class Meta(type):
        def __call__(cls, *args: Any) -> Any:
            made = super().__call__(*args)
            made.k += held.k
            return made

    class Kept(metaclass=Meta):
        def __init__(self, k: int) -> None:
            self.k = k

    return lambda x: x * Kept(1).k, lambda: setattr(held, "k", 5)


OF_OBJECTS = [value for name, value in list(globals().items()) if getattr(value, "__annotations__", {}).get("return") == "Made"]
