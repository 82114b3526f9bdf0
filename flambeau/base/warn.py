"""Warnings that point at the program's line, those that a process hears once, and whether it is a program that calls.

Stands on nothing; used everywhere.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_COMMAND = _PACKAGE + "_torch" + os.sep  # the folder of the command beside the package
_OWN = (_PACKAGE + os.sep, _COMMAND, "<flambeau")
_given: set[str] = set()
_always = [False]  # whether what is said once is said every time: torch.set_warn_always


def warn(words: str, category: type[Warning] = UserWarning) -> None:
    """Give a warning that points at the line that called the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        level, frame = level + 1, frame.f_back
    warnings.warn(words, category, stacklevel=level)


def deprecated(words: str, category: type[Warning] = FutureWarning) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function that programs are to leave: each call says these words, which name what replaces it."""

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            warn(words, category)
            return function(*args, **kwargs)

        return call

    return mark


def called_by_program(within: str) -> bool:
    """Whether the functions of the file `within` that lead here were called by a program, and not by the package itself."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == within:
        frame = frame.f_back
    return not frame.f_code.co_filename.startswith(_OWN)


def program_stack() -> list[str]:
    """The lines of the program that led here, outermost first, as a traceback shows them: without the package's own frames and
    those of the command that runs the program.
    """
    frames = traceback.extract_stack()[:-1]
    command = [at for at, frame in enumerate(frames) if frame.filename.startswith(_COMMAND)]
    frames = frames[command[-1] + 1 if command else 0 :]
    return traceback.format_list([frame for frame in frames if not frame.filename.startswith(_OWN)])


def warn_once(words: str, category: type[Warning] = UserWarning) -> None:
    """`warn`, unless the process has heard these words before."""
    if first_time(words):
        warn(words, category)


def first_time(subject: str) -> bool:
    """Whether the process hasn't heard of this yet; always, after torch.set_warn_always(True)."""
    if _always[0]:
        return True
    new = subject not in _given
    _given.add(subject)
    return new


def set_always(always: bool) -> None:
    """Whether to say every time what else is said once."""
    _always[0] = always


def is_always() -> bool:
    """What `set_always` was given."""
    return _always[0]
