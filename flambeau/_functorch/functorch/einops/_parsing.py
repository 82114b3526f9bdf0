"""Patterns of axes, `"b (h w) ... -> b h w ..."`: their two sides, and what is wrong with them."""

from __future__ import annotations

import keyword
import warnings
from collections.abc import Collection, Mapping
from typing import Any

__all__ = ["AnonymousAxis", "ParsedExpression", "comma_separate", "parse_pattern", "validate_rearrange_expressions"]

_ellipsis = "\u2026"  # one character, which no name of an axis has


class AnonymousAxis:
    """An axis that has a size in the place of a name; two of the same size aren't the same axis."""

    def __init__(self, value: str) -> None:
        self.value = int(value)
        if self.value < 1:
            raise ValueError(f"Anonymous axis should have positive length, not {self.value}")

    def __repr__(self) -> str:
        return f"{self.value}-axis"


class ParsedExpression:
    """One side of a pattern.

    composition: per axis of the tensor what it is joined of, a list of names and AnonymousAxis (an empty one: an axis of
    size 1), or the ellipsis; identifiers: the names, the ellipsis among them. allow_underscore: `_` is a name;
    allow_duplicates: a name may stand twice. ValueError for what is no pattern.
    """

    def __init__(self, expression: str, *, allow_underscore: bool = False, allow_duplicates: bool = False) -> None:
        self.identifiers: set[str | AnonymousAxis] = set()
        self.composition: list[Any] = []
        self.has_ellipsis = self.has_non_unitary_anonymous_axes = False
        self.has_ellipsis_parenthesized: bool | None = None
        self._underscore, self._duplicates = allow_underscore, allow_duplicates
        if "." in expression:
            if "..." not in expression:
                raise ValueError("Expression may contain dots only inside ellipsis (...)")
            if expression.count("...") != 1 or expression.count(".") != 3:
                raise ValueError("Expression may contain dots only inside ellipsis (...); only one ellipsis for tensor ")
            expression = expression.replace("...", _ellipsis)
            self.has_ellipsis = True
        self._group: list[str | AnonymousAxis] | None = None  # of the brackets that are open
        word = ""
        for character in expression:
            if character in "() ":
                self._axis(word)
                word = ""
                self._bracket(character)
            elif character.isalnum() or character in ("_", _ellipsis):
                word += character
            else:
                raise ValueError(f"Unknown character '{character}'")
        if self._group is not None:
            raise ValueError(f"Imbalanced parentheses in expression: '{expression}'")
        self._axis(word)

    def _bracket(self, character: str) -> None:
        if character == "(":
            if self._group is not None:
                raise ValueError("Axis composition is one-level (brackets inside brackets not allowed)")
            self._group = []
        elif character == ")":
            if self._group is None:
                raise ValueError("Brackets are not balanced")
            self.composition.append(self._group)
            self._group = None

    def _axis(self, word: str) -> None:
        if not word:
            return
        if word in self.identifiers and not (self._duplicates or (self._underscore and word == "_")):
            raise ValueError(f"Indexing expression contains duplicate dimension '{word}'")
        if word == _ellipsis:
            self.identifiers.add(_ellipsis)
            if self._group is None:
                self.composition.append(_ellipsis)
                self.has_ellipsis_parenthesized = False
            else:
                self._group.append(_ellipsis)
                self.has_ellipsis_parenthesized = True
            return
        if word.isdecimal():
            if int(word) == 1:
                if self._group is None:
                    self.composition.append([])
                return
            axis: str | AnonymousAxis = AnonymousAxis(word)
            self.has_non_unitary_anonymous_axes = True
        else:
            fits, why = self.check_axis_name_return_reason(word, allow_underscore=self._underscore)
            if not fits:
                raise ValueError(f"Invalid axis identifier: {word}\n{why}")
            axis = word
        self.identifiers.add(axis)
        if self._group is None:
            self.composition.append([axis])
        else:
            self._group.append(axis)

    @staticmethod
    def check_axis_name_return_reason(name: str, allow_underscore: bool = False) -> tuple[bool, str]:
        """Whether an axis may have a name, and why not."""
        if not name.isidentifier():
            return False, "not a valid python identifier"
        if name[0] == "_" or name[-1] == "_":
            if name == "_" and allow_underscore:
                return True, ""
            return False, "axis name should should not start or end with underscore"
        if keyword.iskeyword(name):
            warnings.warn(f"It is discouraged to use axes names that are keywords: {name}", RuntimeWarning, stacklevel=2)
        if name == "axis":
            warnings.warn(
                "It is discouraged to use 'axis' as an axis name and will raise an error in future", FutureWarning, stacklevel=2
            )
        return True, ""

    @staticmethod
    def check_axis_name(name: str) -> bool:
        """Whether an axis may have a name."""
        return ParsedExpression.check_axis_name_return_reason(name)[0]


def parse_pattern(pattern: str, axes_lengths: Mapping[str, int]) -> tuple[ParsedExpression, ParsedExpression]:
    """The two sides of a pattern. ValueError for what is no pattern, and for a size of an axis that can't be named."""
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    if _ellipsis in axes_lengths:
        raise ValueError(f"'{_ellipsis}' is not an allowed axis identifier")
    left, right = map(ParsedExpression, sides)
    if not left.has_ellipsis and right.has_ellipsis:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if left.has_ellipsis and left.has_ellipsis_parenthesized:
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    return left, right


def validate_rearrange_expressions(left: ParsedExpression, right: ParsedExpression, axes_lengths: Mapping[str, int]) -> None:
    """Raise ValueError unless both sides have the same axes, and those whose sizes are given; TypeError for other sizes."""
    for length in axes_lengths.values():
        if type(length) is not int:
            raise TypeError(f"rearrange axis lengths must be integers, got: {type(length)}")
    if left.has_non_unitary_anonymous_axes or right.has_non_unitary_anonymous_axes:
        raise ValueError("rearrange only supports unnamed axes of size 1")
    for words, names in (
        ("only on one side of rearrange expression (should be on both)", left.identifiers ^ right.identifiers),
        ("not found in rearrange expression", axes_lengths.keys() - left.identifiers),
    ):
        if names:
            raise ValueError(f"Identifiers {words}: {names}")


def comma_separate(collection: Collection[str | Collection[str]]) -> str:
    """Names joined by commas, groups of them as tuples are written."""
    return ", ".join(
        each if isinstance(each, str) else f"({comma_separate(each)}{',' if len(each) == 1 else ''})" for each in collection
    )
