"""What is made when it is first used: modules of rooms, which few programs need, and properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class kept(Generic[T]):
    """Decorate a method: a property that is computed once for each object.

    It takes no lock, as functools.cached_property does: threads that ask at the same time may all compute it.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        if instance is None:
            return self  # type: ignore[return-value]
        return instance.__dict__.setdefault(self._name, self._compute(instance))


def submodules(package: str) -> Callable[[str], Any]:
    """The __getattr__ of a package whose attributes are its modules."""

    def load(name: str) -> Any:
        try:
            return import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

    return load


def members(module: dict[str, Any], places: Mapping[str, str]) -> Callable[[str], Any]:
    """The __getattr__ of a package, whose globals() are `module`, for names that modules define which are imported at first use.

    places: by name the module that defines it, as a path from the package on (".gradients") or in full.
    """
    package = module["__name__"]

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return module.setdefault(name, getattr(import_module(places[name], package), name))

    return load
