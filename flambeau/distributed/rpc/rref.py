"""RRef: a reference to a value that another process has.

The owner counts the references of others, and lets a value go when the last is gone. A reference that is sent on is counted
before it leaves. Stands on wire and agent; api makes them.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flambeau.base.naming import called
from flambeau.distributed.rpc import current
from flambeau.distributed.rpc.options import WorkerInfo
from flambeau.distributed.rpc.wire import Travelling
from flambeau.futures import Future

T = TypeVar("T")
Key = tuple[int, int]  # the process that made a reference first, and its number there


class _Value:
    """What an owner keeps. users: references of other processes."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()
        self.users, self.made = 0, False


class Values:
    """The values of this process that others have references to."""

    def __init__(self) -> None:
        self._values: dict[Key, _Value] = {}
        self._lock, self._numbers = threading.Lock(), itertools.count(1)
        self.dropped: queue.SimpleQueue[tuple[WorkerInfo, Key] | None] = queue.SimpleQueue()

    def key(self) -> Key:
        """A new one."""
        return current.agent().own.id, next(self._numbers)

    def of(self, key: Key) -> _Value:
        """The value of a key, which may be still to come."""
        with self._lock:
            return self._values.setdefault(key, _Value())

    def count(self, key: Key, step: int, value: _Value | None = None) -> None:
        """Others have so many references more."""
        with self._lock:
            kept = self._values.setdefault(key, value or _Value())
            kept.users += step
            kept.made = kept.made or value is not None
            if kept.users == 0 and kept.made:
                del self._values[key]


def _count(key: Key, step: int) -> None:
    current.values().count(key, step)


def make(key: Key, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """As the owner: the value of a key is what a function returns."""
    value = current.values().of(key)
    current.values().count(key, 1, value)
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        value.future.set_exception(error)
        raise
    if getattr(function, "_wrapped_async_rpc_function", None) is not None:
        result._when_complete(lambda: _follow(value.future, result))
    else:
        value.future.set_result(result)


def _follow(future: Future[Any], other: Future[Any]) -> None:
    try:
        future.set_result(other.value())
    except BaseException as error:
        future.set_exception(error)


def _fetch(key: Key) -> Future[Any]:
    return current.values().of(key).future


_fetch._answers_later = True  # type: ignore[attr-defined]


def _invoke(rref: RRef[Any], name: str, args: Any, kwargs: Any) -> Any:
    return getattr(rref.local_value(), name)(*args, **kwargs)


_invoke._answers_later = True  # type: ignore[attr-defined]


def _kind(rref: RRef[Any]) -> type:
    return type(rref.local_value())


class _Proxy:
    """The value's methods, called where it is."""

    def __init__(self, call: Callable[..., Any], rref: RRef[Any], timeout: float) -> None:
        self._call, self._rref, self._timeout = call, rref, timeout

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def method(*args: Any, **kwargs: Any) -> Any:
            return self._call(self._rref.owner(), _invoke, (self._rref, name, args, kwargs), timeout=self._timeout)

        return method


@called("distributed.rpc", "RRef")
class RRef(Travelling, Generic[T]):
    """RRef(value): a reference to a value of this process, which can be sent to others; rpc.remote makes those to theirs."""

    def __init__(self, value: T, type_hint: Any = None) -> None:
        self._key, self._owner = current.values().key(), current.agent().own
        self._value: _Value | None = _Value()
        self._value.future.set_result(value)
        self._made: Future[Any] | None = None

    @classmethod
    def _of(cls, owner: WorkerInfo, key: Key, made: Future[Any] | None = None) -> RRef[Any]:
        rref: RRef[Any] = cls.__new__(cls)
        rref._owner, rref._key, rref._made = owner, key, made
        rref._value = current.values().of(key) if owner == current.agent().own else None
        return rref

    def __del__(self) -> None:
        if getattr(self, "_value", 0) is None and current.is_there():
            current.values().dropped.put((self._owner, self._key))  # the agent may be busy in this very thread

    def _travel(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if self._value is not None:
            current.values().count(self._key, 1, self._value)
        else:
            if self._made is not None:
                self._made.wait()
            current.agent().call(self._owner, _count, (self._key, 1), inline=True).wait()
        return _arrived, (self._owner.id, self._key)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("Can not pickle rref in python pickler, rref can only be pickled when using RPC")

    def __repr__(self) -> str:
        if self._value is not None:
            return f"OwnerRRef({self._name()})"
        return f"UserRRef(RRefId = {self._name()}, ForkId = {self._name()})"

    def _name(self) -> str:
        return f"GloballyUniqueId(created_on={self._key[0]}, local_id={self._key[1]})"

    def owner(self) -> WorkerInfo:
        """Whose value it is."""
        return self._owner

    def owner_name(self) -> str:
        """The name of that."""
        return self._owner.name

    def is_owner(self) -> bool:
        """Whether the value is this process's."""
        return self._value is not None

    def confirmed_by_owner(self) -> bool:
        """Whether the owner knows of this reference."""
        return self._value is not None or self._made is None or self._made.done()

    def to_here(self, timeout: float = -1) -> T:
        """The value, or a copy of it. Raises what making it raised, RuntimeError after the timeout."""
        if self._value is not None:
            return self.local_value()
        result: T = current.agent().call(self._owner, _fetch, (self._key,), timeout=timeout).wait()
        return result

    def local_value(self) -> T:
        """The value itself. Raises RuntimeError where it is another process's."""
        if self._value is None:
            raise RuntimeError(
                f"For {self!r}, can't call localValue() on user {current.agent().own}. Call it on owner {self._owner}"
            )
        result: T = self._value.future.wait()
        return result

    def _get_future(self) -> Future[Any] | None:
        return self._made

    def _get_type(self, timeout: float = -1, blocking: bool = True) -> Any:
        """The class of the value; a Future of it unless blocking."""
        made = current.agent().call(self._owner, _kind, (self,), timeout=timeout)
        return made.wait() if blocking else made

    def backward(self, dist_autograd_ctx_id: int = -1, retain_graph: bool = False) -> None:
        """The backward pass from this value, in a context of distributed autograd or, without one, where the value is."""
        current.agent().call(self._owner, _backward, (self, dist_autograd_ctx_id, retain_graph)).wait()

    def rpc_sync(self, timeout: float = -1) -> Any:
        """rref.rpc_sync().method(...) is what the value's method returns there."""
        return _Proxy(current.calls().rpc_sync, self, timeout)

    def rpc_async(self, timeout: float = -1) -> Any:
        """The same as a Future."""
        return _Proxy(current.calls().rpc_async, self, timeout)

    def remote(self, timeout: float = -1) -> Any:
        """The same as a reference."""
        return _Proxy(current.calls().remote, self, timeout)


def _backward(rref: RRef[Any], context: int, retain_graph: bool) -> None:
    from flambeau.distributed import autograd

    value = rref.local_value()
    if context == -1:
        value.backward(retain_graph=retain_graph)
    else:
        autograd.backward(context, [value], retain_graph)


def _arrived(owner: int, key: Key) -> RRef[Any]:
    made: RRef[Any] = RRef._of(current.agent().workers[owner], key)
    if made._value is not None:
        current.values().count(key, -1, made._value)
    return made


def let_go(values: Values) -> None:
    """Tell owners of references that are gone, until None comes: a thread's work."""
    while (gone := values.dropped.get()) is not None:
        owner, key = gone
        try:
            current.agent().call(owner, _count, (key, -1), inline=True)
        except RuntimeError:  # at the end
            return
