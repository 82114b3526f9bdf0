"""Who drives operations on: whoever waits for one, and a thread meanwhile.

An operation advances only while somebody polls. A caller that waits polls without a pause as long as data moves, gives its
core away between two looks, and rests in between once nothing has moved for a while. For operations that nobody waits for, a
thread polls now and then. Stands on base.locks; channel and local define what is polled.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from flambeau.base.locks import short_lock

_LOOKS = 128  # polls between two looks at the clock and at who is gone
_RESTLESS = 0.3  # seconds without movement after which a waiting caller rests between polls
_REST, _LONG_REST = 50e-6, 1e-3
_BACKGROUND = 200e-6  # what the thread rests between two polls


_settling = short_lock()


class Operation:
    """What is under way: `poll` drives it on and says whether it is over, with `error` set if it failed."""

    __slots__ = ("done", "error", "finish", "callbacks", "what", "tensors", "source", "moved", "settling")

    def __init__(self, what: Any, tensors: Any, finish: Callable[[], None] | None) -> None:
        self.what, self.tensors, self.finish = what, tensors, finish
        self.done = self.settling = False
        self.error: BaseException | None = None
        self.callbacks: list[Callable[[], None]] = []
        self.source = -1  # whose message was received
        self.moved = 0  # how many of its parts are through

    def poll(self) -> bool:
        raise NotImplementedError

    def settle(self, error: BaseException | None = None) -> None:
        """It is over: do what is left to do with its tensors, and tell who asked to be told. By one thread only."""
        if error is None and self.finish is not None:
            try:
                self.finish()
            except Exception as failure:
                error = failure
        self.finish = None
        with _settling:
            self.error, self.done = error, True
            callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Have `callback()` called when it is over; at once if it is."""
        with _settling:
            if not self.done:
                self.callbacks.append(callback)
                return
        callback()


class Over(Operation):
    """What was over when it began."""

    __slots__ = ()

    def __init__(self, what: str = "nothing") -> None:
        super().__init__(what, (), None)
        self.settle()

    def poll(self) -> bool:
        return True


def wait(operation: Operation, seconds: float, look: Callable[[Operation], None]) -> None:
    """Poll until it is over. look: called now and then, raises if that will never be. Raises TimeoutError, and what failed."""
    begin = moved_at = 0.0
    moved = -1
    while True:
        for _ in range(_LOOKS):
            if operation.poll():
                return
            os.sched_yield()
        while True:
            look(operation)
            now = time.monotonic()
            begin = begin or now
            if operation.moved != moved:
                moved, moved_at = operation.moved, now
            if now - begin > seconds:
                raise TimeoutError
            if now - moved_at < _RESTLESS or operation.poll():
                break
            time.sleep(_REST if now - moved_at < 10 * _RESTLESS else _LONG_REST)


class Background:
    """A thread that polls what nobody waits for."""

    def __init__(self) -> None:
        self._operations: list[Operation] = []
        self._changed = threading.Condition(threading.Lock())
        self._thread: threading.Thread | None = None
        self._stopped = False

    def add(self, operation: Operation) -> None:
        """Have it polled until it is over."""
        with self._changed:
            if self._stopped:
                return
            self._operations.append(operation)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="flambeau collectives", daemon=True)
                self._thread.start()
            self._changed.notify()

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._operations or self._stopped)
                if self._stopped:
                    return
                operations = list(self._operations)
            over = [operation for operation in operations if operation.poll()]
            if over:
                with self._changed:
                    self._operations = [each for each in self._operations if each not in over]
            time.sleep(_BACKGROUND)
