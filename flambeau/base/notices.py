"""Warnings that a process hears once. Stands on nothing; used wherever PyTorch warns only the first time."""

from __future__ import annotations

import os
import sys
import warnings

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_given: set[str] = set()


def warn_once(words: str) -> None:
    """Give a UserWarning with these words unless it was given before; it points at the line that called the package."""
    if words in _given:
        return
    _given.add(words)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_PACKAGE, "<flambeau")):
        level, frame = level + 1, frame.f_back
    warnings.warn(words, UserWarning, stacklevel=level)
