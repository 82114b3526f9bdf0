"""torch.testing.FileCheck: whether a text, such as that of a graph, has some parts in some order (after LLVM's FileCheck).

Stands on ir.source for the marked lines of errors; `testing` offers it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from flambeau.base.naming import public_module
from flambeau.jit.ir.source import Source, SourceRange

__all__ = ["FileCheck"]


class _Check(NamedTuple):
    kind: str
    text: str
    count: int = 1

    def __str__(self) -> str:
        return f"CHECK{self.kind and '-' + self.kind}{f'-{self.count}' if self.kind == 'COUNT' else ''}: {self.text}"


class FileCheck:
    """Checks that are made in order by `run`; each begins where the one before it ended."""

    __module__ = public_module("testing")

    def __init__(self) -> None:
        self._checks: list[_Check] = []

    def _with(self, *checks: _Check) -> FileCheck:
        self._checks += checks
        return self

    def check(self, test_string: str) -> FileCheck:
        """The text comes next, with anything in front of it."""
        return self._with(_Check("", test_string))

    def check_not(self, test_string: str) -> FileCheck:
        """The text isn't between what is checked before and what is checked behind."""
        return self._with(_Check("NOT", test_string))

    def check_same(self, test_string: str) -> FileCheck:
        """The text comes on the same line."""
        return self._with(_Check("SAME", test_string))

    def check_next(self, test_string: str) -> FileCheck:
        """The text comes on the next line."""
        return self._with(_Check("NEXT", test_string))

    def check_count(self, test_string: str, count: int, exactly: bool = False) -> FileCheck:
        """The text comes so many times; exactly: and no more before what is checked behind."""
        self._with(_Check("COUNT", test_string, count))
        return self.check_not(test_string) if exactly else self

    def check_dag(self, test_string: str) -> FileCheck:
        """The text comes before or behind the others that are checked so in one go."""
        return self._with(_Check("DAG", test_string))

    def check_source_highlighted(self, test_string: str) -> FileCheck:
        """The text comes on a line under which it is marked, as in errors."""
        return self._with(_Check("SOURCE-HIGHLIGHTED", test_string))

    def check_regex(self, pattern: str) -> FileCheck:
        """Something comes that the regular expression matches."""
        return self._with(_Check("REGEX", pattern))

    def run(self, *texts: Any) -> None:
        """Check a text or a graph; with two arguments, the first has the checks, in lines such as `# CHECK-NEXT: text`.

        RuntimeError, with the place in the text, for the first check that fails.
        """
        if len(texts) not in (1, 2):
            raise TypeError(f"run() takes a text, or checks and a text, not {len(texts)} arguments")
        checks = list(_written(str(texts[0]))) if len(texts) == 2 else self._checks
        if not checks:
            raise RuntimeError("No checks have been added to this instance ofFilecheck! Check for bad input.")
        _run(checks, str(texts[-1]))


_LINE = re.compile(r"^\s*#\s*CHECK(?:-(NOT|SAME|NEXT|DAG|SOURCE-HIGHLIGHTED|REGEX|COUNT)(?:-(EXACTLY-)?(\d+))?)?:\s?(.*)$")


def _written(text: str) -> Iterator[_Check]:
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        kind, exactly, count, rest = found.groups()
        if (kind == "COUNT") != (count is not None):
            raise RuntimeError(f"CHECK-COUNT is followed by a number, no other check is: {line.strip()}")
        yield _Check(kind or "", rest, int(count or 1))
        if exactly:
            yield _Check("NOT", rest)


def _run(checks: list[_Check], text: str) -> None:
    end = 0
    absent: list[_Check] = []
    for kind, group in groupby(checks, key=lambda check: check.kind):
        if kind == "NOT":
            absent += group
            continue
        # Checks of one kind that are not ordered among themselves are made from one place.
        for part in [list(group)] if kind == "DAG" else [[check] for check in group]:
            places = [_FINDERS.get(kind, _find)(check, text, end) for check in part]
            first = min(start for start, _ in places)
            for check in absent:
                _refuse(check, check.text, text, end, first)
            absent = []
            end = max(stop for _, stop in places)
    for check in absent:
        _refuse(check, check.text, text, end, len(text))


def _error(check: _Check, words: str, text: str, place: int) -> RuntimeError:
    return RuntimeError(f"{words}\n{SourceRange(Source(text), place, place + 1).highlight()}From {check}\n")


def _refuse(check: _Check, part: str, text: str, begin: int, end: int) -> None:
    place = text.find(part, begin, end)
    if place >= 0:
        raise _error(check, f'Expected to not find "{_shown(part)}" but found it', text, place)


def _shown(part: str) -> str:
    return part.replace("\n", "\\n")


def _find(check: _Check, text: str, begin: int) -> tuple[int, int]:
    place = text.find(check.text, begin)
    if place < 0:
        raise _error(check, f'Expected to find "{_shown(check.text)}" but did not find it\nSearched string:', text, begin)
    return place, place + len(check.text)


def _find_same(check: _Check, text: str, begin: int) -> tuple[int, int]:
    found = _find(check, text, begin)
    _refuse(check, "\n", text, begin, found[0])
    return found


def _find_next(check: _Check, text: str, begin: int) -> tuple[int, int]:
    found = _find(check, text, begin)
    _, line = _find(check._replace(text="\n"), text[: found[0]], begin)
    _refuse(check, "\n", text, line, found[0])
    return found


def _find_count(check: _Check, text: str, begin: int) -> tuple[int, int]:
    first, end = begin, begin
    for number in range(check.count):
        start, end = _find(check, text, end)
        first = start if number == 0 else first
    return first, end


def _find_regex(check: _Check, text: str, begin: int) -> tuple[int, int]:
    found = re.compile(check.text).search(text, begin)
    if found is None:
        raise _error(check, f'Expected to find regex "{check.text}" but did not find it\nSearched string:', text, begin)
    return found.span()


def _find_marked(check: _Check, text: str, begin: int) -> tuple[int, int]:
    start, end = _find(check, text, begin)
    while True:
        head = text.rfind("\n", 0, start) + 1
        marks = text[start:].partition("\n")[2].partition("\n")[0]
        if marks[start - head : end - head] == "~" * (end - start):
            return start, end
        start = text.find(check.text, end)
        if start < 0:
            raise _error(check, f'Expected to find "{check.text}"highlighted but it is not.', text, begin)
        end = start + len(check.text)


_FINDERS: dict[str, Callable[[_Check, str, int], tuple[int, int]]] = {
    "SAME": _find_same,
    "NEXT": _find_next,
    "COUNT": _find_count,
    "REGEX": _find_regex,
    "SOURCE-HIGHLIGHTED": _find_marked,
}
