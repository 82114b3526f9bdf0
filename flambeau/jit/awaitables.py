"""torch.jit._awaitable: calls that wait until their result is asked for, in Python and, as Await[T], in programs.

Stands on nothing; used by the front end, and by what runs programs. torch._awaits offers the class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flambeau.base.naming import public_module

__all__ = ["Await", "_awaitable", "_awaitable_nowait", "_awaitable_wait"]

W = TypeVar("W")
_NOTHING: Any = object()


class Await(Generic[W]):
    """A call that is made when its result is first asked for, by _awaitable_wait or by an attribute of the result."""

    __module__ = public_module("_C")
    __qualname__ = __name__ = "_Await"

    def __init__(
        self, function: Callable[..., W] | None, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any = _NOTHING
    ) -> None:
        self._call = function, args, kwargs
        self._result = result

    def fn(self) -> Callable[..., W]:
        """The function. RuntimeError for an object that was made of a result."""
        function = self._call[0]
        if function is None:
            raise RuntimeError("Await constructed as awaitable_nowait does not have fn")
        return function

    def args(self) -> tuple[Any, ...]:
        """What the function is called with; the result, in an object that was made of it."""
        return self._call[1]

    def is_nowait(self) -> bool:
        """Whether it was made of a result."""
        return self._call[0] is None

    def wait(self) -> W:
        """The result; the function is called once."""
        if self._result is _NOTHING:
            function, args, kwargs = self._call
            assert function is not None
            self._result = function(*args, **kwargs)
        return self._result  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_call" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.wait(), name)


def _awaitable(func: Callable[..., W], *args: Any, **kwargs: Any) -> Await[W]:
    """func(*args, **kwargs), which is called when its result is asked for."""
    return Await(func, args, kwargs)


def _awaitable_nowait(o: W) -> Await[W]:
    """An object like that for a result that is there."""
    return Await(None, (o,), {}, o)


def _awaitable_wait(aw: Await[W]) -> W:
    """The result of such an object."""
    return aw.wait()
