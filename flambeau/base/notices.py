"""Warnings that point at the program's line, and those that a process hears once. Stands on nothing; used everywhere."""

from __future__ import annotations

import os
import sys
import warnings

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_given: set[str] = set()


def warn(words: str, category: type[Warning] = UserWarning) -> None:
    """Give a warning that points at the line that called the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_PACKAGE, "<flambeau")):
        level, frame = level + 1, frame.f_back
    warnings.warn(words, category, stacklevel=level)


def warn_once(words: str, category: type[Warning] = UserWarning) -> None:
    """`warn`, unless the process has heard these words before."""
    if words not in _given:
        _given.add(words)
        warn(words, category)
