"""Errors in a running program, as PyTorch tells them: the lines of the program, outermost first, and what went wrong.

Stands on generate's tables; used by calls.
"""

from __future__ import annotations

from types import TracebackType

from flambeau.jit.execution.exceptions import Error
from flambeau.jit.execution.generate import LINES
from flambeau.jit.ir.source import SourceRange

__all__ = ["told"]

_HEAD = "The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript (most recent call last):\n"


def _frames(traceback: TracebackType | None) -> list[tuple[str, SourceRange]]:
    found = []
    while traceback is not None:
        entry = LINES.get(traceback.tb_frame.f_code.co_filename)
        if entry is not None and traceback.tb_lineno in entry[1]:
            found.append((entry[0], entry[1][traceback.tb_lineno]))
        traceback = traceback.tb_next
    return found


def _frame_text(name: str, where: SourceRange) -> str:
    place = where.file_line_col()
    text = where.highlight()
    if place is None:
        return text
    head, _, rest = text.partition("\n")
    return f"{head}, in {name}\n{rest}"


def told(error: Exception, name: str) -> Exception:
    """The error to raise in place of one that a program's run ended with."""
    if getattr(error, "told", False):
        return error
    frames = _frames(error.__traceback__)
    if not frames:
        return error
    if isinstance(error, Error):
        # PyTorch tells where an exception was raised, not who had called.
        made: Exception = Error(f"{_HEAD}{_frame_text(name, frames[-1][1])}{error.words}\n")
        made.qualified_name = error.qualified_name  # type: ignore[attr-defined]
    else:
        text = "".join(_frame_text(*frame) for frame in frames)
        words = str(error) if not isinstance(error, KeyError) else str(error.args[0])
        kind = error if isinstance(error, NotImplementedError) else None
        made = (
            type(error)(f"{_HEAD}{text}RuntimeError: {words}\n")
            if kind is not None
            else RuntimeError(f"{_HEAD}{text}RuntimeError: {words}\n")
        )
    made.told = True  # type: ignore[attr-defined]
    return made
