"""Tracebacks of errors end at the caller's own line: the frames of this package below it, and the look-ups that failed before a
call was planned, tell a user nothing that the message doesn't.

Public functions call `filter_traceback` where an exception leaves them, or are declared with `@api_boundary`. Only the end
of a traceback is cut: a hook, a custom Function or a module's `forward` keeps its frame, and all frames that lead there. With
`FLAMBEAU_TRACEBACK=full`, or on any rung of `FLAMBEAU_DEBUG`, everything is shown, for a post-mortem debugger. Stands on
base.flags; used by all layers above.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from flambeau.base.errors import CapturedWrite
from flambeau.base.flags import flags

__all__ = ["api_boundary", "filter_traceback"]

Function = TypeVar("Function", bound=Callable[..., Any])

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_OWN = (_PACKAGE, "<flambeau", contextlib.__file__, inspect.__file__)  # where code of ours lies, or works for it


def filter_traceback(error: BaseException) -> None:
    """Cut our own frames off the end of an exception's traceback, and our own exceptions out of those it was raised after.

    Called in an `except` block that then says `raise`, which adds no frame.
    """
    if flags.full_traceback or flags.debug or error.__class__ is CapturedWrite:  # whose words are found in its frames
        return
    last = _last_foreign(error.__traceback__)
    if last is None:
        error.__traceback__ = None
    else:
        last.tb_next = None
    step: BaseException | None = error
    while step is not None:
        context = step.__context__
        while context is not None and _last_foreign(context.__traceback__) is None:
            context = context.__context__
        if context is not step.__context__:
            step.__context__ = context
            if step.__cause__ is None:
                step.__suppress_context__ = False  # what it was to hide is gone; the caller's own is shown
        step = context


def _last_foreign(entry: TracebackType | None) -> TracebackType | None:
    """The last entry of a traceback that is a frame of somebody else's code."""
    found = None
    while entry is not None:
        if not entry.tb_frame.f_code.co_filename.startswith(_OWN):
            found = entry
        entry = entry.tb_next
    return found


def api_boundary(function: Function) -> Function:
    """A function whose errors show no frame of ours. It costs a call: for what is slow, or the slow part of what is quick."""

    @functools.wraps(function)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            filter_traceback(error)
            raise

    return bounded  # type: ignore[return-value]
