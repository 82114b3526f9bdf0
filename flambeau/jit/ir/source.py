"""Source text and ranges in it, and errors that show the line with a mark under it and who was compiling.

Stands on nothing; used by everything that reads a program.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ErrorReport", "Source", "SourceRange", "at", "call_stack_text", "compiling"]

_CONTEXT = 2  # lines shown in front of the marked ones, and behind them


class Source:
    """A text, where it was read, and the number of its first line there."""

    __slots__ = ("_starts", "filename", "first_line", "text")

    def __init__(self, text: str, filename: str | None = None, first_line: int = 1) -> None:
        self.text, self.filename, self.first_line = text, filename, first_line
        self._starts = [0]
        for line in text.split("\n")[:-1]:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def offset(self, line: int, column: int) -> int:
        """The place in the text of a column of a line, lines from 0."""
        return self._starts[line] + column

    def line_of(self, place: int) -> int:
        """The line, from 0, that a place lies in."""
        low, high = 0, len(self._starts)
        while high - low > 1:
            middle = (low + high) // 2
            if self._starts[middle] <= place:
                low = middle
            else:
                high = middle
        return low

    def lines(self) -> list[str]:
        """The lines, without their ends."""
        return self.text.split("\n")

    def start_of(self, line: int) -> int:
        """The place where a line begins."""
        return self._starts[line]


class SourceRange:
    """A part of a source, from `start` to `end`."""

    __slots__ = ("end", "source", "start")

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source, self.start, self.end = source, start, end

    def file_line_col(self) -> tuple[str, int, int] | None:
        """(file, line from 1, column from 0); None for a text without a file."""
        if self.source.filename is None:
            return None
        line = self.source.line_of(self.start)
        return self.source.filename, line + self.source.first_line, self.start - self.source.start_of(line)

    def text(self) -> str:
        """The text of the range."""
        return self.source.text[self.start : self.end]

    def highlight(self) -> str:
        """The lines around the range, with marks under it, as errors show them."""
        source = self.source
        lines = source.lines()
        first, last = source.line_of(self.start), source.line_of(max(self.start, self.end - 1))
        shown = []
        place = self.file_line_col()
        if place is not None:
            shown.append(f'  File "{place[0]}", line {place[1]}')
        begin, stop = max(0, first - _CONTEXT), min(len(lines), last + 1 + _CONTEXT)
        for number in range(begin, stop):
            line = lines[number]
            if number == len(lines) - 1 and not line and number > last:
                break
            shown.append(line)
            if first <= number <= last and self.end > self.start:
                at = source.start_of(number)
                left = self.start - at if number == first else len(line) - len(line.lstrip())
                right = min(self.end - at, len(line))
                mark = " " * left + "~" * max(right - left, 1 if number == first else 0)
                shown.append(mark + (" <--- HERE" if number == last else ""))
        while len(shown) > 1 and not shown[-1]:
            shown.pop()
        return "\n".join(shown) + "\n"

    __str__ = highlight

    def merged(self, other: SourceRange) -> SourceRange:
        """The smallest range that has both."""
        return SourceRange(self.source, min(self.start, other.start), max(self.end, other.end))


class _Stack(threading.local):
    def __init__(self) -> None:
        self.calls: list[tuple[str, SourceRange | None]] = []


_stack = _Stack()


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """While a function of this name is compiled; the one outside says by `at` where it calls it."""
    _stack.calls.append((name, None))
    try:
        yield
    finally:
        _stack.calls.pop()


def at(where: SourceRange) -> None:
    """Say what the function that is being compiled calls next, if it calls anything."""
    calls = _stack.calls
    if calls:
        calls[-1] = (calls[-1][0], where)


def call_stack_text() -> str:
    """Who was called from where, innermost first; empty for what no function called."""
    calls = _stack.calls
    text = ""
    for (inner, _), (outer, where) in zip(reversed(calls), list(reversed(calls))[1:]):
        if where is not None:
            text += f"'{inner}' is being compiled since it was called from '{outer}'\n{where.highlight()}"
    return text


class ErrorReport(RuntimeError):
    """What is wrong with a program, and where: PyTorch's words, the marked lines, the functions that were being compiled."""

    def __init__(self, where: SourceRange | None, message: str) -> None:
        self.where, self.message, self.stack = where, message, call_stack_text()
        super().__init__(message)

    def __str__(self) -> str:
        shown = self.where.highlight() if self.where is not None else ""
        return f"\n{self.message}:\n{shown}{self.stack}"
