"""Exceptions that programs raise: Error in Python, with the words and the class's name that the program gives.

Used by special and tracebacks.
"""

from __future__ import annotations

from typing import NoReturn

from flambeau.base.naming import public_module

__all__ = ["Error", "raise_named"]


class Error(Exception):
    """An error that a program raised."""

    __module__ = public_module("jit")

    def __init__(self, message: str = "", words: str = "", qualified_name: str | None = None) -> None:
        super().__init__(message)
        self.words, self.qualified_name = words, qualified_name


def raise_named(message: str, qualified_name: str | None = None) -> NoReturn:
    """Raise what the program says."""
    words = f"{qualified_name or 'RuntimeError'}: {message}"
    raise Error(words, words, qualified_name)
