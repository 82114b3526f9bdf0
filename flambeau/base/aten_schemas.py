"""The schemas of PyTorch's operators, as PyTorch lists them: `operators.txt`, a line an overload (tools/list_operators.py).

The file is read when something is first asked. Here is what its text says to the eye: overloads, tags, and how many arguments
each form of a function takes; `dispatcher.schema` parses it in full. Used by core and by dispatcher.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["Arity", "arities", "table", "tagged"]


@functools.cache
def table() -> dict[str, dict[str, str]]:
    """The lines of the file by "ns::name", then by overload ("default" where it has no name), in PyTorch's order."""
    found: dict[str, dict[str, str]] = {}
    text = Path(__file__).with_name("operators.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        name, _, overload = line.partition("(")[0].partition(".")
        found.setdefault(name, {})[overload or "default"] = line
    return found


def tagged(name: str, tag: str) -> bool:
    """Whether PyTorch gives the operator of that name the tag, such as "inplace_view"."""
    return any(tag in line.rpartition(" | ")[2].split() for line in table().get("aten::" + name, {}).values())


@functools.cache
def outs(name: str) -> int:
    """How many tensors the operator of that name writes to where it is given `out`; 0 if its forms differ, or it has none."""
    counts = {
        line.rpartition(" -> ")[0].count("!)")
        for line in table().get("aten::" + name, {}).values()
        if "out" in line.rpartition(" | ")[2].split() and "generated" not in line.rpartition(" | ")[2].split()
    }
    return counts.pop() if len(counts) == 1 else 0


class Arity(NamedTuple):
    """How many arguments a form of a public function takes, `out` among them."""

    least: int
    most: int


_OPTIONS = ("ScalarType? dtype", "Layout? layout", "Device? device", "bool? pin_memory")
_SEPARATOR = re.compile(r", (?![^\[]*\])")


@functools.cache
def arities(name: str, method: bool = False, hidden: str = "") -> tuple[Arity, ...]:
    """Of each form in which Python sees the function (or method) of that name, how many arguments it takes; none if PyTorch has
    no such operator. hidden: overloads that Python doesn't see.

    A form with `out` is one with the form without it, and what was generated from other overloads is none.
    """
    forms: dict[tuple[str, ...], Arity] = {}
    waiting: list[tuple[str, ...]] = []
    for overload, line in table().get("aten::" + name, {}).items():
        written, _, after = line.partition("(")[2].rpartition(" -> ")
        tags = after.partition(" | ")[2].split()
        if "script" in tags or "generated" in tags or "Dimname" in written or overload in hidden.split():
            continue
        given = tuple(x for x in _SEPARATOR.split(written[:-1]) if x and x != "*")
        if method and ("out_dtype" in written or not any(x.startswith("Tensor") and x.endswith(" self") for x in given)):
            continue  # the dtype of a product's result is chosen by functions only
        if "out" in tags:
            waiting.append(tuple(x for x in given if "!)" not in x))
            continue
        least, most = sum("=" not in x for x in given), len(given)
        if any(x.startswith("bool? pin_memory") for x in given):  # what makes tensors takes requires_grad too
            given, most = tuple(x for x in given if not x.startswith(_OPTIONS)), most + 1
        forms[given] = Arity(least, most)
    for given in waiting:
        least, most = forms.get(given, Arity(sum("=" not in x for x in given), len(given)))
        forms[given] = Arity(least, most + 1)
    return tuple(Arity(least - method, most - method) for least, most in forms.values())
