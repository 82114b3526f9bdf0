"""An exception on its way to another thread or process, with its traceback as text.

Stands on the standard library. A data loader's workers send it; `torch._utils` offers it by PyTorch's name.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any


class KeyErrorMessage(str):
    """Text that is its own repr, for KeyError, whose str is the repr of its argument."""

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """The exception of `exc_info` (default: the one being handled): type, text with traceback, and `where` it happened."""

    def __init__(self, exc_info: Any = None, where: str = "in background"):
        kind, error, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = kind
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))
        self.where = where

    def reraise(self) -> None:
        """Raise the exception, as the same type where it can be made from a message."""
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            raise KeyError(KeyErrorMessage(message))
        try:
            error = self.exc_type(message)
        except Exception:
            raise RuntimeError(message) from None
        raise error
