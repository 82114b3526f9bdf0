"""torch.utils.data.datapipes.datapipe: pipes of data sets, each of which takes others and gives items.

A pipe that is iterated is an IterableDataset, one that is indexed a Dataset. What `functional_datapipe` registered is a method of
every pipe of the kind: `pipe.map(f)` is `Mapper(pipe, f)`. Stands on dataset; PyTorch keeps pipes for old programs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, ClassVar

from flambeau.core.modes.modes import observed
from flambeau.core.modes.observing import stretch
from flambeau.core.operator import unsupported as _unsupported
from flambeau.utils.data.dataset import Dataset, Item, IterableDataset

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]

globals().update(
    _unsupported.all_of(
        "utils.data.datapipes.datapipe.",
        "write a Dataset or an IterableDataset, whose __iter__ may be a generator",
        "",
        "_DataPipeSerializationWrapper _IterDataPipeSerializationWrapper _MapDataPipeSerializationWrapper",
    )
)


class _Pipe:
    """What pipes of either kind have: functions that were registered, and hooks of how they are pickled and shown."""

    functions: ClassVar[dict[str, Callable[..., Any]]]
    getstate_hook: ClassVar[Callable[[Any], Any] | None] = None
    reduce_ex_hook: ClassVar[Callable[[Any], Any] | None] = None
    str_hook: ClassVar[Callable[[Any], str] | None] = None
    repr_hook: ClassVar[Callable[[Any], str] | None] = None

    def __getattr__(self, name: str) -> Any:
        function = type(self).functions.get(name)
        if function is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}")
        bound = functools.partial(function, self)
        return functools.update_wrapper(bound, function, assigned=("__doc__",))

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make a function a method of every pipe of the kind."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: type, enable_df_api_tracing: bool = False
    ) -> None:
        """Make a class of pipes a method: `pipe.name(...)` is `cls_to_register(pipe, ...)`. Exception for a name in use."""
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")

        def made(source: Any, *args: Any, **kwargs: Any) -> Any:
            return cls_to_register(source, *args, **kwargs)

        cls.functions[function_name] = functools.update_wrapper(made, cls_to_register, assigned=("__doc__",), updated=())

    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None:
        """Have a function say what is pickled of a pipe; None for no function. RuntimeError where there is one."""
        if cls.getstate_hook is not None and hook_fn is not None:
            raise RuntimeError("Attempt to override existing getstate_hook")
        cls.getstate_hook = hook_fn

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None:
        """Have a function say how a pipe is pickled, unless it raises NotImplementedError. RuntimeError where there is one."""
        if cls.reduce_ex_hook is not None and hook_fn is not None:
            raise RuntimeError("Attempt to override existing reduce_ex_hook")
        cls.reduce_ex_hook = hook_fn

    def __getstate__(self) -> Any:
        hook = type(self).getstate_hook
        return self.__dict__ if hook is None else hook(self.__dict__)

    def __reduce_ex__(self, protocol: Any) -> Any:
        hook = type(self).reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(protocol)

    def __str__(self) -> str:
        hook = type(self).str_hook
        return type(self).__qualname__ if hook is None else hook(self)

    def __repr__(self) -> str:
        hook = type(self).repr_hook
        return type(self).__qualname__ if hook is None else hook(self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).functions]


class IterDataPipe(_Pipe, IterableDataset[Item]):
    """A pipe whose items come one after the other: subclasses write `__iter__`, and `reset`, which each iteration begins with."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__iter__" in vars(cls):
            cls.__iter__ = _begun(vars(cls)["__iter__"])  # type: ignore[method-assign]

    def __iter__(self) -> Iterator[Item]:
        return self  # type: ignore[return-value]

    def reset(self) -> None:
        """Begin anew."""


class MapDataPipe(_Pipe, Dataset[Item]):
    """A pipe whose items are read by keys: subclasses write `__getitem__` and `__len__`."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class DFIterDataPipe(IterDataPipe):
    """A pipe of tables."""

    def _is_dfpipe(self) -> bool:
        return True


class DataChunk(list):
    """Items that were put together: a batch, a group."""

    def __init__(self, items: Iterable[Any]) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The items in brackets."""
        return indent + "[" + ", ".join(str(item) for item in self) + "]"

    def raw_iterator(self) -> Iterator[Any]:
        """The items as they are, whatever a subclass makes of them."""
        yield from self.items


# ---------------------------------------------------------------- iterations


def _begun(iterate: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    """`__iter__` of a class of pipes, which resets the pipe first, and whose errors say in which pipe they were raised."""
    if getattr(iterate, "_begins", False):
        return iterate

    @functools.wraps(iterate)
    def begin(self: Any) -> Iterator[Any]:
        self.reset()
        items = iterate(self)
        return _telling(self, items) if isinstance(items, Generator) else _Items(self, items)

    begin._begins = True  # type: ignore[attr-defined]
    return begin


def _telling(pipe: Any, items: Iterator[Any]) -> Iterator[Any]:
    while True:
        try:
            item = _next(pipe, items)
        except StopIteration:
            return
        yield item


class _Items:
    """What iterates over a pipe, with whatever else the iterator of its class has."""

    def __init__(self, pipe: Any, items: Iterator[Any]) -> None:
        self._pipe, self._items = pipe, items

    def __iter__(self) -> _Items:
        return self

    def __next__(self) -> Any:
        return _next(self._pipe, self._items)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._items, name)


def _next(pipe: Any, items: Iterator[Any]) -> Any:
    """The next item, which profilers see; errors say in which pipe they were raised."""
    try:
        if not observed.count:
            return next(items)
        with stretch(described(pipe).replace("IterDataPipe", "")):
            return next(items)
    except StopIteration:
        raise
    except Exception as error:
        said = str(error.args[0]) if error.args else ""
        if "thrown by __iter__ of" not in said:
            error.args = (f"{said}\nThis exception is thrown by __iter__ of {described(pipe)}", *error.args[1:])
        raise


def described(pipe: Any) -> str:
    """A pipe by its class and those of its attributes that are named as parameters of the class."""
    names = inspect.signature(type(pipe)).parameters
    given = {name: value for name, value in sorted(vars(pipe).items()) if name in names}
    words = (f"{name}={value.__name__ if inspect.isfunction(value) else repr(value)}" for name, value in given.items())
    return f"{type(pipe).__name__}({', '.join(words)})"
