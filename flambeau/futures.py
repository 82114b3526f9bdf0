"""torch.futures: results that may still be on their way, what waits for them and what runs when they come.

Stands on the standard library. Used by `jit.fork` and the asynchronous parts of programs; `torch.jit.Future` is the same class.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from flambeau.base.locks import long_lock

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")
_TWICE = "Attempting to mark a completed Future as complete again. Note that a Future can only be marked completed once."


def _indexed(device: Any) -> None:
    from flambeau.base.device import device as Device

    if isinstance(device, int):
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if Device(device).index is None:
        raise ValueError(f"Expected devices to have indices, got {Device(device)}")


class Future(Generic[T]):
    """A result that some other piece of work sets once, or an exception in its place.

    devices: of the tensors in the result; on the CPU there are none to name. Raises ValueError for one without an index.
    """

    def __getstate__(self) -> Any:
        raise RuntimeError("Can not pickle torch.futures.Future")

    def __init__(self, *, devices: list[Any] | None = None):
        for device in devices or ():
            _indexed(device)
        self._ready = threading.Condition(long_lock())
        self._complete = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], None]] = []

    def done(self) -> bool:
        """Whether the result, or an exception, is there."""
        return self._complete

    def wait(self) -> T:
        """The result, when it has come. Raises the exception that was set in its place."""
        with self._ready:
            self._ready.wait_for(lambda: self._complete)
        return self.value()

    def value(self) -> T:
        """The result, which must be there. Raises the exception that was set in its place; RuntimeError if it is too early."""
        if not self._complete:
            raise RuntimeError("the Future's value was asked for before it was there: call wait(), or then() with a callback")
        if self._error is not None:
            raise self._error
        return cast(T, self._result)

    def _settle(self, result: Any, error: BaseException | None) -> None:
        with self._ready:
            if self._complete:
                raise RuntimeError(_TWICE)
            self._result, self._error, self._complete = result, error, True
            self._ready.notify_all()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def set_result(self, result: T) -> None:
        """Give the result; what waits for it goes on, and the callbacks run here. Raises RuntimeError the second time."""
        self._settle(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Have waiting raise this exception. Raises AssertionError for what is none."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._settle(None, result)

    def _when_complete(self, callback: Callable[[], None]) -> None:
        with self._ready:
            if not self._complete:
                self._callbacks.append(callback)
                return
        callback()

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """The Future of `callback(self)`, which runs when this one completes. An error in it is a RuntimeError there."""
        follower: Future[S] = Future()

        def run() -> None:
            try:
                result = callback(self)
            except Exception as error:
                follower.set_exception(RuntimeError(_in_callback(error)))
            else:
                follower.set_result(result)

        self._when_complete(run)
        return follower

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Have `callback(self)` run when this Future completes. An error in it is written to stderr and goes no further."""

        def run() -> None:
            try:
                callback(self)
            except Exception as error:
                print(_in_callback(error), file=sys.stderr)

        self._when_complete(run)


def _in_callback(error: Exception) -> str:
    """What PyTorch says of an error in a callback: its words, and where it came from."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    places = "\n".join(f"  {frame.filename}({frame.lineno}): {frame.name}" for frame in frames)
    return f"Got the following error when running the callback: {type(error).__name__}: {error}\n\nAt:\n{places}\n"


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A Future of the list of these Futures, complete when all of them are; it raises the first of their exceptions."""
    for future in futures:
        if future is None:
            raise RuntimeError("Future can't be None")
        if not isinstance(future, Future):
            raise TypeError(f"collect_all takes a sequence of Futures, not one with a {type(future).__name__}")
    every: Future[list[Future[Any]]] = Future()
    waiting = [len(futures)]
    lock = long_lock()

    def one_more(future: Future[Any]) -> None:
        with lock:
            waiting[0] -= 1
            last = waiting[0] == 0
            failed = future._error
            settled = every.done()
            if not settled and failed is not None:
                every.set_exception(failed)
            elif not settled and last:
                every.set_result(futures)

    if not futures:
        every.set_result([])
    for future in futures:
        future._when_complete(lambda future=future: one_more(future))  # type: ignore[misc]
    return every


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The results of all Futures, waited for. Raises the first of their exceptions."""
    return [future.wait() for future in collect_all(futures).wait()]
