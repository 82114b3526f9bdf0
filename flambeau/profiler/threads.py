"""Calls of Python in all threads that run when a profiler starts.

Python lets a thread set a profile function for itself. For the others there is sys._setprofileallthreads from 3.12 on, and before
that the interpreter's own function, which takes the state of a thread. Where there is neither, only the profiler's thread is
seen. Stands on flambeau.profiler.python_calls; used by flambeau.profiler.recorder.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from flambeau.profiler.allocations import Identities
from flambeau.profiler.python_calls import Call, Calls, Objects

__all__ = ["ThreadCalls"]

Profile = Callable[[FrameType, str, Any], None]


class ThreadCalls:
    """The calls of each thread between start and stop; threads that start in between aren't seen."""

    def __init__(self, tick: Callable[[], int], identities: Identities) -> None:
        self._objects = Objects(identities)
        self._make = lambda thread: Calls(tick, self._objects, thread)
        self._threads: dict[int, Calls] = {}

    @property
    def calls(self) -> list[Call]:
        """All calls, thread by thread."""
        return [call for each in self._threads.values() for call in each.calls]

    def start(self) -> None:
        """Begin, with the calls that are going on."""
        here = threading.get_ident()
        frames = sys._current_frames()
        frames[here] = sys._getframe(1)  # a frame that held itself would live on, with what the program's frames hold
        while frames:
            thread = next(iter(frames))
            calls = self._threads[thread] = self._make(thread)
            calls.going_on(frames.pop(thread))
        if len(self._threads) > 1:
            _set_for_others(self._seen)
        self._threads[here].start()

    def stop(self) -> None:
        """End, and what is still going on."""
        here = self._threads.get(threading.get_ident())
        if here is not None:
            here.stop()
        if len(self._threads) > 1:
            _set_for_others(None)
        for each in list(self._threads.values()):
            each.close()

    def _seen(self, frame: FrameType, event: str, what: Any) -> None:
        calls = self._threads.get(threading.get_ident())
        if calls is not None:
            calls.seen(frame, event, what)


_EVENTS = {0: "call", 3: "return", 4: "c_call", 5: "c_exception", 6: "c_return"}  # by the interpreter's numbers
_watching: list[Profile] = []  # who is told; callbacks of the interpreter must stay alive


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.py_object, ctypes.c_int, ctypes.c_void_p)
def _told(_: Any, frame: Any, number: int, what: Any) -> int:
    event = _EVENTS.get(number)
    if event is not None and _watching:
        _watching[-1](frame, event, ctypes.cast(what, ctypes.py_object).value if what and event.startswith("c_") else None)
    return 0


def _set_for_others(profile: Profile | None) -> None:
    """Set the profile function of every thread but this one; None for none."""
    if hasattr(sys, "_setprofileallthreads"):
        own = sys.getprofile()
        sys._setprofileallthreads(profile)
        sys.setprofile(own)
        return
    api = ctypes.pythonapi
    set_profile = getattr(api, "_PyEval_SetProfile", None)
    if set_profile is None:
        return
    _watching[:] = [] if profile is None else [profile]
    for function, arguments in ((api.PyInterpreterState_Get, []), (api.PyInterpreterState_ThreadHead, [ctypes.c_void_p]),
                                (api.PyThreadState_Next, [ctypes.c_void_p]), (api.PyThreadState_Get, [])):  # fmt: skip
        function.restype, function.argtypes = ctypes.c_void_p, arguments
    set_profile.restype, set_profile.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    here = api.PyThreadState_Get()
    callback = None if profile is None else ctypes.cast(_told, ctypes.c_void_p)
    state = api.PyInterpreterState_ThreadHead(api.PyInterpreterState_Get())
    while state:
        if state != here:
            set_profile(state, callback, None)
        state = api.PyThreadState_Next(state)
