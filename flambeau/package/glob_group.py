"""Patterns of module names or of paths: `*` for part of a segment, `**` for any number of segments."""

from __future__ import annotations

import re
from collections.abc import Iterable

from flambeau.base.naming import public_module

__all__ = ["GlobGroup", "GlobPattern"]

GlobPattern = str | Iterable[str]


class GlobGroup:
    """A set of names: those that a pattern of `include` matches and none of `exclude` does.

    include, exclude: patterns, one or several. `*` stands for any text within a segment, `**` for any number of whole segments,
    none among them; segments are what `separator` parts. ValueError for a `**` that is only part of a segment.
    """

    __module__ = public_module("package.glob_group")

    def __init__(self, include: GlobPattern, *, exclude: GlobPattern = (), separator: str = ".") -> None:
        self._dbg = f"GlobGroup(include={include}, exclude={exclude})"
        self.include = self._glob_list(include, separator)
        self.exclude = self._glob_list(exclude, separator)
        self.separator = separator

    def __str__(self) -> str:
        return self._dbg

    __repr__ = __str__

    def matches(self, candidate: str) -> bool:
        """Whether the set has a name."""
        candidate = self.separator + candidate
        return any(p.fullmatch(candidate) for p in self.include) and not any(p.fullmatch(candidate) for p in self.exclude)

    @staticmethod
    def _glob_list(elems: GlobPattern, separator: str = ".") -> list[re.Pattern[str]]:
        patterns = [elems] if isinstance(elems, str) else elems
        return [GlobGroup._glob_to_re(pattern, separator) for pattern in patterns]

    @staticmethod
    def _glob_to_re(pattern: str, separator: str = ".") -> re.Pattern[str]:
        """The expression of a pattern, which matches names with a separator in front."""
        end = re.escape(separator)
        return re.compile("".join(_segment(part, end) for part in pattern.split(separator)))


def _segment(part: str, end: str) -> str:
    if part == "**":
        return f"({end}[^{end}]+)*" if len(end) == 1 else f"({end}[^{end[-1]}]+)*"
    if "**" in part:
        raise ValueError("** can only appear as an entire path segment")
    return end + f"[^{end[-1]}]*".join(map(re.escape, part.split("*")))
