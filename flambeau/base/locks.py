"""Locks that survive forks, signal handlers and destructors: every lock of the package is made here.

A handler of a signal or a destructor may run in the middle of anything and call any operator, so every lock is reentrant, and
what is done under one must bear being begun again by the same thread. A forked child has only the thread that forked, but finds
locks as they were: held for ever by threads that it doesn't have. Therefore

- a `short_lock`, under which nothing waits, is taken before every fork, so that what it guards is whole in the child;
- a `long_lock`, under which programs' own code may run, is made anew in the child: what it guards must be usable half done;
- a `Gate` lets any number of threads through, and is closed before a fork when the last of them has left.

Stands on the standard library.
"""

from __future__ import annotations

import _imp
import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import _bootstrap  # type: ignore[attr-defined]
from typing import Any

__all__ = ["Gate", "long_lock", "short_lock"]

_IMPORTS_TAKE = 60.0  # seconds that a fork waits at most for modules that other threads are loading


class Gate:
    """What threads are inside of while a fork would leave something half done in the child."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._inside: list[int] = []
        _gates.append(self)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """A stretch of work that no fork of another thread interrupts; it waits for none but such a fork."""
        own = threading.get_ident()
        with self._changed:
            self._inside.append(own)
        try:
            yield
        finally:
            with self._changed:
                self._inside.remove(own)
                self._changed.notify_all()

    def acquire(self) -> None:
        """Wait until no other thread is inside, and let none in before `release`."""
        own = threading.get_ident()
        self._changed.acquire()
        self._changed.wait_for(lambda: all(thread == own for thread in self._inside))

    def release(self) -> None:
        self._changed.release()


_gates: list[Gate] = []
_short: list[Any] = [threading.RLock()]  # the first: one thread forks at a time
_long: weakref.WeakSet[Any] = weakref.WeakSet()
_taken: list[Any] = []


def short_lock() -> Any:
    """A reentrant lock for a few lines that wait for nothing and run no code of the program's; made once, at import."""
    lock = threading.RLock()
    _short.append(lock)
    return lock


def long_lock() -> Any:
    """A reentrant lock that may be held for long; free in a forked child."""
    lock = threading.RLock()
    _long.add(lock)
    return lock


def _before() -> None:
    end = time.monotonic() + _IMPORTS_TAKE
    while True:
        for lock in (_short[0], *_gates, *_short[1:], _Imports):
            lock.acquire()
            _taken.append(lock)
        if not _others_load() or time.monotonic() > end:
            return
        _after()  # what loads may need them
        time.sleep(0.001)


def _after() -> None:
    while _taken:
        _taken.pop().release()


def _in_child() -> None:
    _after()
    for lock in list(_long):
        if not lock._is_owned():
            lock._at_fork_reinit()


class _Imports:
    """The interpreter's lock of imports: while it is held, no thread begins another one."""

    acquire, release = _imp.acquire_lock, _imp.release_lock


def _others_load() -> bool:
    """Whether other threads are loading modules, which the child could then never load. Import has a lock for each."""
    own = threading.get_ident()
    locks = [reference() for reference in list(_bootstrap._module_locks.values())]  # type: ignore[attr-defined]
    return any(lock is not None and lock.owner not in (None, own) for lock in locks)


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
